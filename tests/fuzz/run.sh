# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes with libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer; sourced by full.sh. New inputs that reach
# new code are kept in build/fuzz/<target>; `-merge=1` moves the useful ones to the corpus in tests/fuzz.

sanitizers=address,undefined
build_fuzzed_library() {
  CC=clang CXX=clang++ cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHAMPOO_BUILD_TESTS=OFF \
    -DSHAMPOO_SANITIZE="fuzzer-no-link,$sanitizers" && cmake --build build/fuzz
}

# fuzz NAME CORPUS SECONDS ARGUMENTS...: one target; the arguments of its compilation.
fuzz() {
  local name=$1 corpus=$2 seconds=$3
  shift 3
  printf '== fuzzing %s for %d s\n' "$name" "$seconds"
  mkdir -p "build/fuzz/$name"
  if clang++ -std=c++20 -g -O1 -fsanitize="fuzzer,$sanitizers" -fno-sanitize-recover=undefined -I. -Icapi/include "$@" \
       -o "build/fuzz/${name}_fuzzer" >>build/fuzz.log 2>&1 &&
     "build/fuzz/${name}_fuzzer" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
       -artifact_prefix=build/fuzz/ "build/fuzz/$name" "$corpus" >>build/fuzz.log 2>&1; then
    tally "fuzz $name" 1 0
  else
    tail -n 40 build/fuzz.log
    tally "fuzz $name" 0 1
  fi
}

if build_fuzzed_library >build/fuzz.log 2>&1; then
  fuzz api tests/fuzz/corpus "${FUZZ_SECONDS:=120}" tests/fuzz/api_fuzzer.cc \
    -Lbuild/fuzz/capi -lshampoo -Wl,-rpath,"$PWD/build/fuzz/capi"
  fuzz checkpoint tests/fuzz/checkpoint_corpus "${CHECKPOINT_FUZZ_SECONDS:=600}" tests/fuzz/checkpoint_fuzzer.cc \
    core/checkpoint/{index,index_text,json,block_place,safetensors,file}.cc core/plan/{shape,region}.cc \
    core/base/{status,dtype,hash}.cc
else
  tail -n 40 build/fuzz.log
  tally "fuzz (build)" 0 1
fi
