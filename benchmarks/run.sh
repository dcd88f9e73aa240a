#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# bash benchmarks/run.sh [PART...] [options]
#
# Compares the optimizers of this library with AdamW. Works on a plain Debian 12: installs missing packages. Builds the
# library and the trainers in build/benchmarks. Runs the named parts, by default all: known_answers, convolution, cost,
# language_model and transfer. A repeated call continues an interrupted benchmark. README.md describes the parts.
#
#   --quick           small sizes: all parts take five minutes, but the sizes are too small for any conclusion
#   --text FILE...    the text of the language model; default: the sources of Python's standard library
#   --check N         instead of a benchmark: repeats N finished runs of each part; losses must equal the stored ones
#   --budget          instead of a benchmark: prints how many runs each method needs at most, and the seconds per run
#   --list            instead of a benchmark: prints the parts
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/benchmarks
log=$folder/log

case "${1:-}" in
  --list) printf '%s\n' known_answers convolution cost language_model transfer; exit 0 ;;
  -h | --help) sed -n '5,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac

# Let OpenBLAS choose its kernels for this processor.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

# logged NAME COMMAND...: runs a command and writes its output to build/benchmarks/log/NAME.log.
logged() {
  local name=$1
  shift
  if ! "$@" >"$log/$name.log" 2>&1; then
    tail -n 20 "$log/$name.log" >&2
    echo "FAILED: $*. The whole log is $log/$name.log" >&2
    exit 1
  fi
}

mkdir -p "$log"
bash cmake/install_packages.sh cmake ninja-build ccache gcc g++ pkg-config libc6-dev libopenblas-serial-dev \
  libopenblas-pthread-dev liblapacke-dev libxxhash-dev nlohmann-json3-dev python3

echo "building the library and the trainers in build/benchmarks"
# The benchmarks need no CUDA, because they run on the CPU.
logged configure cmake --preset release -B "$folder/library" -DCMAKE_INSTALL_PREFIX="$folder/install" -DSHAMPOO_CUDA=OFF
logged build cmake --build "$folder/library"
logged install cmake --install "$folder/library"
logged trainers-configure cmake -G Ninja -S benchmarks -B "$folder/trainers" -DCMAKE_PREFIX_PATH="$folder/install"
logged trainers-build cmake --build "$folder/trainers"

exec python3 benchmarks/measure.py --trainers "$folder/trainers" "$@"
