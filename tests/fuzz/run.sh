# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes the API with libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer; sourced by full.sh.
# New inputs that reach new code are kept in build/fuzz/corpus; `-merge=1` moves the useful ones to tests/fuzz/corpus.

printf '== fuzzing the API for %d s\n' "${FUZZ_SECONDS:=120}"
if CC=clang CXX=clang++ cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHAMPOO_BUILD_TESTS=OFF \
     -DSHAMPOO_SANITIZE=fuzzer-no-link,address,undefined >build/fuzz.log 2>&1 &&
   cmake --build build/fuzz >>build/fuzz.log 2>&1 &&
   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Icapi/include tests/fuzz/api_fuzzer.cc \
     -Lbuild/fuzz/capi -lshampoo -Wl,-rpath,"$PWD/build/fuzz/capi" -o build/fuzz/api_fuzzer >>build/fuzz.log 2>&1; then
  mkdir -p build/fuzz/corpus
  if build/fuzz/api_fuzzer -max_total_time="$FUZZ_SECONDS" -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
       -artifact_prefix=build/fuzz/ build/fuzz/corpus tests/fuzz/corpus >>build/fuzz.log 2>&1; then
    tally "fuzz" 1 0
  else
    tail -n 40 build/fuzz.log
    tally "fuzz" 0 1
  fi
else
  tail -n 40 build/fuzz.log
  tally "fuzz (build)" 0 1
fi
