#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_exports.sh NM PLUGIN: the plugin exports its one function, and nothing of what is linked into it. The version itself
# shows up as an absolute symbol, and is left out.
set -eu
export LC_ALL=C
found=$("$1" -D --defined-only "$2" | awk '!($2 == "A" && $3 ~ /^SHAMPOO_CUDA_0(@|$)/) { print $3, $2 }' | sort)
if [ "$found" != "shampoo_cuda_plugin@@SHAMPOO_CUDA_0 T" ]; then
  echo "Expected of $2 shampoo_cuda_plugin@@SHAMPOO_CUDA_0 alone. It exports:"
  printf '%s\n' "$found"
  exit 1
fi
