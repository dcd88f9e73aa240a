#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# The main job, on a plain Debian 12: installs what is missing, builds the library, installs it into ./install, and
# trains the network of examples/c_mlp against that. Arguments go to the trainer (--help lists them).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

stage() { printf '== %s\n' "$1"; }
# Runs a command whose output matters only if it fails.
quietly() {
  local log=$root/out/$1.log
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    printf 'failed: %s\nThe whole output is in %s\n' "$*" "$log" >&2
    exit 1
  fi
}

mkdir -p out
bash cmake/install_packages.sh g++ cmake ninja-build ccache libopenblas-serial-dev liblapacke-dev

stage "building libshampoo (a minute or two the first time)"
quietly configure cmake --preset release
quietly build cmake --build --preset release
stage "installing it into $root/install"
quietly install cmake --install build/release --prefix install

stage "building the example against the installed library"
quietly example cmake -S examples/c_mlp -B build/c_mlp -G Ninja -DCMAKE_PREFIX_PATH="$root/install"
quietly example cmake --build build/c_mlp

stage "training"
build/c_mlp/train_digits --data examples/c_mlp/data/digits.bin --csv out/digits.csv --svg out/digits.svg "$@"
stage "done: the curves are in out/digits.svg (open it in a browser) and, as numbers, in out/digits.csv"
