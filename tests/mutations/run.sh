#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Applies wrong changes to a copy of the sources, one at a time, and checks that a test fails with each change.
#
#   bash tests/mutations/run.sh [AREA|PATCH...]    default: all areas
#
# An area is a folder next to this file, and determines what is configured and built. The first lines of a patch are
#
#   change: what the patch makes wrong
#   test: regular expression for names of ctest tests. At least one of these tests must fail
#   case: (optional) the test case that fails; for tests with pytest, an expression for the option -k of pytest
#
# The environment variable CMAKE_ARGS can have more options for CMake, such as -DPython_EXECUTABLE=... for a Python with
# PyTorch. The copy and its builds stay in build/mutations. The last line of the output counts the patches:
# "N noticed, M not noticed". The exit status is 0 if M is 0. If the tests of a patch are skipped because a package is
# missing, the patch is reported, but it is not counted.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly time_limit=300 # seconds for a test without a limit of its own
work=$PWD/build/mutations
tree=$work/tree
log=$work/log
applied=$work/applied.patch
read -r -a cmake_args <<<"${CMAKE_ARGS:-}"

# use_area AREA: sets the variables `build` (the build folder), `options` (for CMake) and `targets`. Most areas share a
# build folder, so that the library and its tests are compiled once.
use_area() {
  build=$tree/build/all
  options=()
  case $1 in
    core | cuda)
      build=$tree/build/core
      # These options make compiling much faster. Code is not optimized, except that of some suites, which set their own
      # optimization level (tests/CMakeLists.txt). There is no unity build of test sources, so fewer test sources are
      # compiled again after a change.
      options=(-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 -DSHAMPOO_JOIN_TESTS=OFF)
      targets=(shampoo_core_tests shampoo_capi_tests shampoo_root_faults shampoo_checkpoint_reshard_tests shampoo_replay
        shampoo_distributed_tests shampoo_replay_cuda shampoo_cuda_fake shampoo_cuda_contract_tests shampoo_cuda_faults_tests
        shampoo_cuda_against_cpu_tests shampoo_cuda_tests)
      ;;
    python)
      build=$tree/build/python
      options=(-DSHAMPOO_PYTHON=ON -DCMAKE_C_FLAGS_RELWITHDEBINFO=-O0) # makes compiling the code from SWIG faster
      targets=(shampoo_python shampoo_replay shampoo_ckpt shampoo_cuda_fake)
      ;;
    java)
      options=(-DSHAMPOO_JAVA=ON)
      targets=(shampoo_jar shampoo_java_tests shampoo_java_foreign shampoo_replay)
      ;;
    rust)
      options=(-DSHAMPOO_RUST=ON)
      targets=(all)
      ;;
    bindings) # these tests only read sources, so nothing is compiled
      build=$tree/build/core
      targets=(build.ninja)
      ;;
    docs)
      options=(-DSHAMPOO_PYTHON=ON)
      targets=(all)
      ;;
    *) targets=(all) ;;
  esac
}

# Lists the files of the working tree.
sources() {
  git ls-files --cached --others --exclude-standard | sort -u | comm -23 - <(git ls-files --deleted | sort)
}

# tests_of PATCH: prints the key under which the array `baseline` stores the result of the patch's tests with unchanged
# sources. Patches with the same key run the same tests, so this result is stored once.
tests_of() {
  printf '%s' "$(field test "$1")"
  case $(area_of "$1") in python | docs) printf ' %s' "$(field case "$1")" ;; esac
}

field() { sed -n "s/^$1: //p" "$2"; }
area_of() { basename "$(dirname "$1")"; }

undo() {
  [ -e "$applied" ] || return 0
  patch -d "$tree" -p1 --reverse --silent <"$applied"
  rm "$applied"
}

# compile [TARGET...]: builds the targets, by default all targets of the area.
compile() {
  [ $# -gt 0 ] || set -- "${targets[@]}"
  ninja -C "$build" "$@" >"$log" 2>&1
}

# programs_of PATCH: prints the build outputs, such as programs, that occur in the command or the environment of a test
# of the patch.
programs_of() {
  ctest --test-dir "$build" -R "^($(field test "$1"))\$" --show-only=json-v1 |
    python3 -c 'import json, re, subprocess, sys
build = sys.argv[1]
lines = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True).stdout.splitlines()
outputs = {line.rpartition(":")[0] for line in lines}
for test in json.load(sys.stdin)["tests"]:
    words = json.dumps([test.get("command", []), test["properties"]])
    found = outputs.intersection(re.findall(re.escape(build) + "/([^\"=,; ]+)", words))
    sys.stdout.writelines(output + "\n" for output in found)' "$build" | sort -u
}

# run_tests PATCH [CASE]: runs the tests of a patch, and sets result to passed, failed, skipped, or the reason why a
# test could not run. Test programs that use doctest run only CASE, or all cases if there is no CASE. pytest always
# runs only the case of the patch. Other tests run all cases.
run_tests() {
  local names
  names="^($(field test "$1"))\$"
  result=passed
  PYTEST_ADDOPTS=$(field case "$1" | sed "s/.*/-k '&'/") SHAMPOO_TEST_CASE=${2:-} \
    ctest --test-dir "$build" -R "$names" --timeout "$time_limit" --no-tests=error >"$log" 2>&1 || result=failed
  if grep -q 'No tests were found' "$log"; then
    result="no test of this name"
  elif grep -q '(Not Run)' "$log" && ! grep -qE '^[[:space:]]*[0-9]+ - .*\((Failed|Timeout|SEGFAULT|Subprocess aborted)\)' "$log"; then
    result="could not run: $(grep -m 1 '(Not Run)' "$log")"
  elif [ "$result" = passed ] && grep -q '\*\*\*Skipped' "$log"; then
    result=skipped
  fi
}

# judge [TARGET...]: compiles the targets (by default all targets of the area) while the patch `file` is applied, and
# runs the tests of the patch. If the variable `only` is not empty, it is the CASE of run_tests. Sets result.
judge() {
  if compile "$@"; then
    run_tests "$file" "$only"
  else
    result="does not compile: $(grep -m 1 'error' "$log")"
  fi
}

stop() {
  printf '%s\n' "$1"
  tail -n 20 "$log"
  exit 1
}

[ $# -gt 0 ] || set -- tests/mutations/*/
patches=()
for item in "$@"; do
  [ ! -d "tests/mutations/$item" ] || item=tests/mutations/$item
  if [ -d "$item" ]; then
    patches+=("${item%/}"/*.patch)
  else
    patches+=("$item")
  fi
done
mapfile -t areas < <(for file in "${patches[@]}"; do area_of "$file"; done | sort -u)

mkdir -p "$tree"
git init -q "$tree" # some tests list the files with git
undo # reverts the change that an interrupted run has left
# Files that have not changed since the last run keep their modification time, so that they are not compiled again.
sources | tr '\n' '\0' | xargs -0 cp -u --parents -t "$tree"
comm -13 <(sources) <(cd "$tree" && find . -type f -not -path './build/*' -not -path './.git/*' -printf '%P\n' | sort) |
  (cd "$tree" && xargs -r -d '\n' rm)
for area in "${areas[@]}"; do
  use_area "$area"
  cmake -S "$tree" --preset ci -B "$build" "${options[@]}" "${cmake_args[@]}" >"$log" 2>&1 || stop "cannot configure"
  compile || stop "cannot build the tests of $area"
done

# Both arrays have the keys that tests_of prints. baseline: the results of the tests with unchanged sources. programs:
# in the areas core and cuda, the output of programs_of.
declare -A baseline programs
for file in "${patches[@]}"; do
  use_area "$(area_of "$file")"
  tests=$(tests_of "$file")
  [ -z "${baseline[$tests]:-}" ] || continue
  run_tests "$file"
  baseline[$tests]=$result
  case $(area_of "$file") in core | cuda) programs[$tests]=$(programs_of "$file") ;; esac
done

noticed=0
missed=0
for file in "${patches[@]}"; do
  use_area "$(area_of "$file")"
  name=$(area_of "$file")/$(basename "$file" .patch)
  tests="$(field test "$file") $(field case "$file")"
  case ${baseline[$(tests_of "$file")]} in
    passed) ;;
    skipped)
      printf '%s: %s is skipped here\n' "$name" "$tests"
      continue
      ;;
    *)
      missed=$((missed + 1))
      printf '%s: NOT noticed: without any change, the result of %s is: %s\n' "$name" "$tests" "${baseline[$(tests_of "$file")]}"
      continue
      ;;
  esac
  patch -d "$tree" -p1 --dry-run --silent <"$file" || stop "$name does not apply"
  cp "$file" "$applied"
  patch -d "$tree" -p1 --no-backup-if-mismatch --silent <"$file"
  only=$(field case "$file")
  result=passed
  # First, only the build outputs that `programs_of` prints are compiled, with their dependencies. If the tests notice
  # nothing, all targets are compiled, and the tests run again. If a test loads a library at run time, the library must
  # be one of these outputs or a dependency of such an output. Otherwise the test could fail because the library is out
  # of date.
  mapfile -t first < <(printf '%s' "${programs[$(tests_of "$file")]:-}")
  [ ${#first[@]} -eq 0 ] || judge "${first[@]}"
  [ "$result" = failed ] || judge
  if [ "$result" = passed ] && [ -n "$only" ]; then
    run_tests "$file"
    [ "$result" = passed ] || tests="$(field test "$file"), but not by the case $only"
  fi
  undo
  if [ "$result" = failed ]; then
    noticed=$((noticed + 1))
    printf '%s: noticed by %s\n' "$name" "$tests"
  else
    missed=$((missed + 1))
    printf '%s: NOT noticed by %s (%s)\n' "$name" "$tests" "$result"
  fi
done
printf '%d noticed, %d not noticed\n' "$noticed" "$missed"
[ "$missed" -eq 0 ]
