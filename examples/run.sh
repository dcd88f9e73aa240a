#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# bash examples/run.sh [options of the trainer]
#
# From a plain Debian 12 to a trained network: installs what is missing, builds the library, installs it into ./install,
# builds examples/c_mlp against that and runs it. Curves come to out/, logs to build/log/. Options, such as --epochs 5,
# are handed to the trainer; c_mlp/README.md lists them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
logs=$root/build/log
stages=5
stage=0

packages=(cmake ninja-build ccache gcc g++ pkg-config libc6-dev libopenblas-serial-dev liblapacke-dev libxxhash-dev nlohmann-json3-dev)

begin() {
  stage=$((stage + 1))
  what=$1
  echo "[$stage/$stages] $what"
}

# On a terminal: the newest line of what comes in, in place. Otherwise nothing.
show_newest_line() {
  if [[ ! -t 1 ]]; then
    cat >/dev/null
    return
  fi
  local line
  while IFS= read -r line; do printf '\r\033[K      %.*s' 100 "$line"; done
  printf '\r\033[K'
}

# Runs a command of the stage; its output goes to the log.
logged() {
  local log=$logs/$1.log
  shift
  if ! "$@" 2>&1 | tee "$log" | show_newest_line; then
    tail -n 20 "$log" >&2
    echo "FAILED in stage $stage of $stages, $what. The whole log is $log" >&2
    exit 1
  fi
}

mkdir -p "$logs" out

begin "packages"
bash cmake/install_packages.sh "${packages[@]}" || {
  echo "FAILED in stage $stage of $stages, $what" >&2
  exit 1
}

begin "building the library in build/release"
logged configure cmake --preset release -DCMAKE_INSTALL_PREFIX="$root/install"
logged build cmake --build --preset release

begin "installing the library into install/"
logged install cmake --install build/release

begin "building examples/c_mlp against the installed library"
logged example-configure cmake -G Ninja -S examples/c_mlp -B build/c_mlp -DCMAKE_PREFIX_PATH="$root/install"
logged example-build cmake --build build/c_mlp

begin "training on handwritten digits"
build/c_mlp/train_digits --data examples/c_mlp/data/digits.bin --csv out/digits.csv --svg out/digits.svg "$@" || {
  echo "FAILED in stage $stage of $stages, $what: the message is above" >&2
  exit 1
}

echo
echo "picture: $root/out/digits.svg"
echo "numbers: $root/out/digits.csv"
