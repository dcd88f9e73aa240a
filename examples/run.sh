#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# bash examples/run.sh [options of the trainer]
# bash examples/run.sh cuda [options of the trainer]
#
# Trains a network on a fresh Debian 12: installs missing packages, builds the library and installs it into ./install,
# and builds and runs examples/c_mlp. Curves are written to out/, and logs to build/log/. Options such as --epochs 5 are
# passed to the trainer. c_mlp/README.md lists the options.
#
# With "cuda", the script builds and runs examples/cuda_mlp and examples/c_nccl instead of c_mlp, and passes the options
# to cuda_mlp. Building needs nvcc. Running needs a GPU that libshampoo can use. The last lines of the output list each
# program that was not built or not run.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
logs=$root/build/log
stages=5
stage=0
cuda=false
if [[ ${1:-} == cuda ]]; then
  cuda=true
  stages=6
  shift
fi

packages=(cmake ninja-build ccache gcc g++ pkg-config libc6-dev libopenblas-serial-dev liblapacke-dev libxxhash-dev nlohmann-json3-dev
          python3)

begin() {
  stage=$((stage + 1))
  what=$1
  echo "[$stage/$stages] $what"
}

# On a terminal, each input line replaces the line that is shown. Otherwise, shows nothing.
show_newest_line() {
  if [[ ! -t 1 ]]; then
    cat >/dev/null
    return
  fi
  local line
  while IFS= read -r line; do printf '\r\033[K      %.*s' 100 "$line"; done
  printf '\r\033[K'
}

# logged NAME COMMAND...: runs a command of the current stage and writes its output to build/log/NAME.log.
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

# Messages about programs that were not built or not run.
skipped=()

# Runs a trainer. The exit status 77 means that the trainer cannot use a GPU.
run_on_gpu() {
  local status=0
  "$@" || status=$?
  if [[ $status -eq 77 ]]; then
    skipped+=("$(basename "$1") was built but not run; the reason is above")
  elif [[ $status -ne 0 ]]; then
    echo "FAILED in stage $stage of $stages, $what: the message is above" >&2
    exit 1
  fi
}

# Searches the folder of the CUDA toolkit and other usual folders for the file $1, and prints its full path.
find_near() {
  local folder
  for folder in "${nvcc%/bin/nvcc}" /usr/local/cuda /usr /usr/local; do
    if [[ -e $folder/$1 ]]; then
      echo "$folder/$1"
      return
    fi
  done
}

cuda_examples() {
  nvcc=$(command -v nvcc || true)
  [[ -n $nvcc || ! -x /usr/local/cuda/bin/nvcc ]] || nvcc=/usr/local/cuda/bin/nvcc
  begin "building examples/cuda_mlp against the installed library"
  if [[ -z $nvcc ]]; then
    skipped+=("cuda_mlp and c_nccl were not built: there is no nvcc in the PATH or in /usr/local/cuda")
    return
  fi
  logged cuda-configure cmake -G Ninja -S examples/cuda_mlp -B build/cuda_mlp -DCMAKE_PREFIX_PATH="$root/install" \
    -DCMAKE_CUDA_COMPILER="$nvcc"
  logged cuda-build cmake --build build/cuda_mlp

  begin "training on handwritten digits on a GPU"
  run_on_gpu build/cuda_mlp/train_digits_cuda --data examples/c_mlp/data/digits.bin "$@"

  begin "training on all GPUs with NCCL"
  local header library
  header=$(find_near include/nccl.h)
  library=$(find_near lib/libnccl.so)
  [[ -n $library ]] || library=$(find_near lib/x86_64-linux-gnu/libnccl.so)
  if [[ -z $header || -z $library ]]; then
    skipped+=("c_nccl was not built: nccl.h or libnccl.so was not found")
    return
  fi
  logged nccl-configure cmake -G Ninja -S examples/c_nccl -B build/c_nccl -DCMAKE_PREFIX_PATH="$root/install" \
    -DCMAKE_CUDA_COMPILER="$nvcc" -DC_NCCL_GPUS=ON -DNCCL_INCLUDE_DIR="$(dirname "$header")" -DNCCL_LIBRARY="$library"
  logged nccl-build cmake --build build/c_nccl
  run_on_gpu build/c_nccl/train_digits_gpus --data examples/c_mlp/data/digits.bin
  run_on_gpu build/c_nccl/train_digits_gpus --data examples/c_mlp/data/digits.bin --shards 0
}

if $cuda; then
  cuda_examples "$@"
  echo
  if [[ ${#skipped[@]} -eq 0 ]]; then
    echo "all programs were built and run"
  else
    printf 'NOT RUN: %s\n' "${skipped[@]}"
  fi
  exit 0
fi

begin "building examples/c_mlp against the installed library"
logged example-configure cmake -G Ninja -S examples/c_mlp -B build/c_mlp -DCMAKE_PREFIX_PATH="$root/install"
logged example-build cmake --build build/c_mlp

begin "training on handwritten digits"
build/c_mlp/train_digits --data examples/c_mlp/data/digits.bin --csv out/digits.csv "$@" &&
  python3 examples/plot.py out/digits.csv out/digits.svg --title "Handwritten digits: a network 64-128-64-10" || {
  echo "FAILED in stage $stage of $stages, $what: the message is above" >&2
  exit 1
}

echo
echo "picture: $root/out/digits.svg"
echo "numbers: $root/out/digits.csv"
