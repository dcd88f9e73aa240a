#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Applies one wrong change of the library after another to a copy of the tree, and expects a test to fail.
#
#   bash tests/mutations/run.sh [NAME.patch...]   default: all in this folder
#
# The first lines of a patch say what it changes, and which test has to notice it. The copy and its build stay in
# build/mutations, so that a second run compiles little. The last line is "N noticed, N not noticed"; the exit status is
# 0 if all were noticed.
set -euo pipefail
cd "$(dirname "$0")/../.."

patches=("$@")
[ ${#patches[@]} -gt 0 ] || patches=(tests/mutations/*.patch)
targets=(shampoo_core_tests shampoo_replay shampoo_replay_cuda shampoo_cuda_double shampoo_cuda_contract_tests)
tree=$PWD/build/mutations/tree
log=$PWD/build/mutations/log
applied=$PWD/build/mutations/applied.patch
mkdir -p "$tree"
undo() {
  [ -e "$applied" ] || return 0
  patch -d "$tree" -p1 --reverse --silent <"$applied"
  rm "$applied"
}
undo # what a run that was interrupted has left
# What has not changed since keeps its time, so that it is not compiled anew.
git ls-files -z --cached --others --exclude-standard | xargs -0 cp -u --parents -t "$tree"
comm -13 <(git ls-files --cached --others --exclude-standard | sort) \
  <(cd "$tree" && find . -type f -not -path './build/*' -printf '%P\n' | sort) | (cd "$tree" && xargs -r -d '\n' rm)

build() { ninja -C "$tree/build/ci" "${targets[@]}" >"$log" 2>&1; }
passes() { ctest --test-dir "$tree/build/ci" -R "^$1\$" >>"$log" 2>&1; }

# Without optimization, which would take most of the time.
(cd "$tree" && cmake --preset ci -DSHAMPOO_PYTHON=OFF -DSHAMPOO_JAVA=OFF -DSHAMPOO_RUST=OFF \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 >"$log" 2>&1) && build || {
  tail -n 20 "$log"
  exit 1
}
for test in $(sed -n 's/^test: //p' "${patches[@]}" | sort -u); do
  passes "$test" || { printf '%s fails without any change; %s says why\n' "$test" "$log"; exit 1; }
done

noticed=0
missed=0
for file in "${patches[@]}"; do
  test=$(sed -n 's/^test: //p' "$file")
  result="not noticed by $test"
  if ! patch -d "$tree" -p1 --dry-run --silent <"$file"; then
    printf '%s does not apply\n' "$file"
    exit 1
  fi
  cp "$file" "$applied"
  patch -d "$tree" -p1 --no-backup-if-mismatch --silent <"$file"
  if ! build; then
    result="does not compile: $(grep -m 1 'error' "$log")"
  elif ! passes "$test"; then
    result="noticed by $test"
  fi
  undo
  case $result in
    "noticed"*) noticed=$((noticed + 1)) ;;
    *) missed=$((missed + 1)) ;;
  esac
  printf '%s: %s\n' "$(basename "$file" .patch)" "$result"
done
printf '%d noticed, %d not noticed\n' "$noticed" "$missed"
[ "$missed" -eq 0 ]
