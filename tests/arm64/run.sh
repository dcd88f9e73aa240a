# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Replays four suites of recorded cases (see tests/golden/README.md) on 64-bit ARM. The program shampoo_replay is built
# with Debian's cross compiler and runs under qemu-user. tests/full.sh sources this file.

arm64_root=$PWD/build/arm64_root

arm64_build() {
  cmake -S tests/arm64/project -B build/arm64 -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/arm64.cmake" -DSHAMPOO_ARM64_ROOT="$arm64_root" \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache &&
    cmake --build build/arm64
}

# arm64_replay FOLDER ARGUMENTS...: runs shampoo_replay with ARGUMENTS, which end with the files of the cases. The
# program writes its results to build/arm64/out/FOLDER.
arm64_replay() {
  local out=build/arm64/out/$1
  shift
  rm -rf "$out"
  qemu-aarch64-static -L /usr/aarch64-linux-gnu build/arm64/shampoo_replay --out "$out" "$@" >>build/arm64.log 2>&1
}

# arm64_count NAME COMMAND...: runs the command and counts it as passed or failed.
arm64_count() {
  if "${@:2}" >>build/arm64.log 2>&1; then
    arm64_passed=$((arm64_passed + 1))
  else
    printf 'arm64: %s failed; see build/arm64.log\n' "$1"
    arm64_failed=$((arm64_failed + 1))
  fi
}

printf '== arm64: build, recorded cases under qemu\n'
arm64_passed=0
arm64_failed=0
if bash cmake/arm64_packages.sh "$arm64_root" >build/arm64.log 2>&1 && arm64_build >>build/arm64.log 2>&1; then
  for suite in trajectory rules matrix_root matrix_root_extra; do
    arm64_replay "$suite" --threads 2 "tests/golden/data/$suite"/*.safetensors || true
    arm64_count "$suite" "$python" tests/golden/compare.py "tests/golden/data/$suite" "build/arm64/out/$suite"
  done
  # Check that other numbers of threads and of ranks give bit-identical results.
  arm64_replay threads --threads 5 tests/golden/data/trajectory/*.safetensors || true
  arm64_count threads diff -r build/arm64/out/trajectory build/arm64/out/threads
  arm64_replay ranks --threads 1 --ranks 3 tests/golden/data/trajectory/*.safetensors || true
  arm64_count ranks diff -r build/arm64/out/trajectory build/arm64/out/ranks
  tally arm64 "$arm64_passed" "$arm64_failed"
else
  tail -n 40 build/arm64.log
  tally 'arm64 (build)' 0 1
fi
