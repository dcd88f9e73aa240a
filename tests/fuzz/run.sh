#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes with libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer. tests/full.sh sources this script. It can
# also be run as a command:
#
#   bash tests/fuzz/run.sh
#
# FUZZ_SECONDS is the time of the fuzzer of the API in seconds, and CHECKPOINT_FUZZ_SECONDS is the time of the fuzzer
# of checkpoints (default of both: 600). A fuzzer passes if it finds no error and executes at least 100,000 inputs.
# Inputs that reach new code are kept in build/fuzz/api and build/fuzz/checkpoint. To copy such inputs to a corpus in
# tests/fuzz, run the fuzzer with `-merge=1`.

if ! declare -F tally >/dev/null; then # the script runs as a command
  set -euo pipefail
  cd "$(dirname "$0")/../.."
  failed=0
  tally() {
    printf '%s: %d passed, %d failed\n' "$1" "$2" "$3"
    failed=$((failed + $3))
  }
  trap 'exit $(($? != 0 || failed > 0))' EXIT
fi

sanitizers=address,undefined
fewest_inputs=100000
build_fuzzed_library() {
  CC=clang CXX=clang++ cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHAMPOO_BUILD_TESTS=OFF \
    -DSHAMPOO_SANITIZE="fuzzer-no-link,$sanitizers" && cmake --build build/fuzz
}

# fuzz NAME CORPUS SECONDS ARGUMENTS...: builds and runs a fuzzer. ARGUMENTS, such as its source, are for the compiler.
fuzz() {
  local name=$1 corpus=$2 seconds=$3 log=build/fuzz/$1.log inputs
  shift 3
  printf '== fuzzing %s for %d s\n' "$name" "$seconds"
  mkdir -p "build/fuzz/$name"
  if clang++ -std=c++20 -g -O1 -fsanitize="fuzzer,$sanitizers" -fno-sanitize-recover=undefined -I. -Icapi/include "$@" \
       -o "build/fuzz/${name}_fuzzer" >"$log" 2>&1 &&
     "build/fuzz/${name}_fuzzer" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
       -artifact_prefix=build/fuzz/ "build/fuzz/$name" "$corpus" >>"$log" 2>&1; then
    inputs=$(sed -n 's/^stat::number_of_executed_units: *\([0-9]*\)$/\1/p' "$log")
    if [ "${inputs:-0}" -ge "$fewest_inputs" ]; then
      tally "fuzz $name, $inputs inputs" 1 0
      return
    fi
    printf 'fuzz %s: %s inputs in %d s; expected at least %d. Give the fuzzer more time.\n' "$name" "${inputs:-no}" "$seconds" \
      "$fewest_inputs"
  else
    tail -n 40 "$log"
  fi
  tally "fuzz $name" 0 1
}

mkdir -p build
if build_fuzzed_library >build/fuzz.log 2>&1; then
  fuzz api tests/fuzz/corpus "${FUZZ_SECONDS:=600}" tests/fuzz/api_fuzzer.cc \
    -Lbuild/fuzz/capi -lshampoo -Wl,-rpath,"$PWD/build/fuzz/capi"
  fuzz checkpoint tests/fuzz/checkpoint_corpus "${CHECKPOINT_FUZZ_SECONDS:=600}" tests/fuzz/checkpoint_fuzzer.cc \
    build/fuzz/core/libshampoo_core.a
else
  tail -n 40 build/fuzz.log
  tally "fuzz (build)" 0 1
fi
