#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# bash cmake/cuda_from_pypi.sh headers|toolkit|all FOLDER
#
# Installs the packages of cmake/cuda_packages.txt in FOLDER with the layout of a CUDA toolkit:
#
#   headers   only FOLDER/include, for the tests of the CUDA backend (downloads much more than it keeps)
#   toolkit   nvcc, the headers, and the libraries for linking
#   all       the toolkit and NCCL
#
# FOLDER is replaced unless it already has these packages. The variable PYTHON names the interpreter (default: python3).
set -euo pipefail

what=${1:-}
folder=${2:-}
list=$(dirname "$0")/cuda_packages.txt
case "$what" in
  headers) packages=$(sed -n '/^nvidia.*# headers$/s/ .*//p' "$list") ;;
  toolkit) packages=$(sed '/^nvidia/!d; /# nccl$/d; s/ .*//' "$list") ;;
  all) packages=$(sed '/^nvidia/!d; s/ .*//' "$list") ;;
  *) sed -n '5,13s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
[ -n "$folder" ] || { echo "cuda_from_pypi.sh $what: a folder is missing" >&2; exit 2; }

stamp="$what"$'\n'"$packages"
if [ "$(cat "$folder/from_pypi" 2>/dev/null || true)" = "$stamp" ]; then exit 0; fi

python=${PYTHON:-python3}
mkdir -p "$(dirname "$folder")"
unpacked=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$unpacked"' EXIT
if ! "$python" -m pip --version >/dev/null 2>&1; then
  "$python" -m venv "$unpacked/venv" # needs ensurepip, which is in Debian's python3-venv
  python=$unpacked/venv/bin/python
fi
# Install into a separate folder, without the dependencies of the packages.
# shellcheck disable=SC2086
"$python" -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-cache-dir --timeout 20 \
  --retries 1 --no-deps --no-compile --only-binary :all: --target "$unpacked/packages" $packages

toolkit=$(echo "$unpacked"/packages/nvidia/cu[0-9]*)
[ -d "$toolkit/include" ] || { echo "cuda_from_pypi.sh: the packages have an unknown layout" >&2; exit 1; }
if [ "$what" = headers ]; then
  find "$toolkit" -mindepth 1 -maxdepth 1 ! -name include -exec rm -rf {} +
else
  if [ "$what" = all ]; then
    cp -R "$unpacked"/packages/nvidia/nccl/include/. "$toolkit/include"
    mv "$unpacked"/packages/nvidia/nccl/lib/*.so* "$toolkit/lib"
  fi
  # The packages contain each library only under its soname. Linkers search for the name without a version.
  for library in "$toolkit"/lib/*.so.*; do
    name=$(basename "$library")
    [ -e "$toolkit/lib/${name%%.so.*}.so" ] || ln -s "$name" "$toolkit/lib/${name%%.so.*}.so"
  done
  # nvcc.profile and FindCUDAToolkit search the folder lib64.
  ln -s lib "$toolkit/lib64"
  target=$(uname -m)
  [ "$target" != aarch64 ] || target=sbsa
  mkdir -p "$toolkit/targets/$target-linux"
  ln -s ../../include ../../lib "$toolkit/targets/$target-linux/"
fi
printf '%s' "$stamp" >"$toolkit/from_pypi"
rm -rf "$folder"
mv "$toolkit" "$folder"
