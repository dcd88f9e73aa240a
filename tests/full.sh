# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# The long tier; sourced by run.sh, whose build_and_test and tally it uses.

build_and_test dev
# What is long is so by the number of calls of BLAS, which is not instrumented.
build_and_test asan --label-exclude long
build_and_test tsan --label-exclude long
build_and_test system-blas --label-exclude 'private-blas|long'

printf '== clang-tidy\n'
tidy_passed=0
tidy_failed=0
mkdir -p build/tidy
sed 's/ -fno-gnu-unique//' build/dev/compile_commands.json >build/tidy/compile_commands.json # g++ alone has it, and "ivdep"
for source in $(git ls-files 'core/*.cc' 'capi/src/*.cc'); do
  if clang-tidy -p build/tidy --quiet --extra-arg=-Wno-unknown-pragmas "$source" 2>/dev/null; then
    tidy_passed=$((tidy_passed + 1))
  else
    printf 'clang-tidy: %s\n' "$source"
    tidy_failed=$((tidy_failed + 1))
  fi
done
tally clang-tidy "$tidy_passed" "$tidy_failed"

source tests/arm64/run.sh
source tests/fuzz/run.sh

# The record: what ran, when, on which commit and which kind of processor.
{
  sed '/^<!-- result -->$/q' docs/verification.md
  printf '\nDate: %s. Commit: %s%s. Processor: %s, %s cores.\n\n' "$(date -u +%F)" "$(git rev-parse --short HEAD)" \
    "$(git diff --quiet HEAD -- core capi tests tools cmake examples || printf ' with uncommitted changes')" \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)"
  printf '| stage | passed | failed |\n|---|---|---|\n%s' "$table"
  printf '| **all** | **%d** | **%d** |\n' "$passed" "$failed"
} >docs/verification.md.new
mv docs/verification.md.new docs/verification.md
