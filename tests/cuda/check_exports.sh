#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_exports.sh NM PLUGIN: checks that PLUGIN exports the function shampoo_cuda_plugin and no other symbol. NM is a
# program such as nm. In addition to the exported symbols, NM lists the symbol version SHAMPOO_CUDA_0 as an absolute
# symbol; the check ignores this line.
set -eu
export LC_ALL=C
found=$("$1" -D --defined-only "$2" | awk '!($2 == "A" && $3 ~ /^SHAMPOO_CUDA_0(@|$)/) { print $3, $2 }' | sort)
if [ "$found" != "shampoo_cuda_plugin@@SHAMPOO_CUDA_0 T" ]; then
  echo "$2 does not export exactly the function shampoo_cuda_plugin@@SHAMPOO_CUDA_0. It exports:"
  printf '%s\n' "$found"
  exit 1
fi
