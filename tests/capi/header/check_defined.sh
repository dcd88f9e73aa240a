#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_defined.sh NM LIBRARY EXPORTS: fails unless the library exports exactly the listed names, as functions of
# version SHAMPOO_0. The version itself is an absolute symbol and is ignored.
set -eu
export LC_ALL=C
expected=$(sed 's/$/@@SHAMPOO_0 T/' "$3")
found=$("$1" -D --defined-only "$2" | awk '!($2 == "A" && $3 ~ /^SHAMPOO_0(@|$)/) { print $3, $2 }' | sort)
if [ "$found" != "$expected" ]; then
  echo "Listed in $3 and not exported by $2 as NAME@@SHAMPOO_0 T:"
  printf '%s\n' "$expected" | while read -r line; do printf '%s\n' "$found" | grep -qxF "$line" || echo "  $line"; done
  echo "Exported and not listed:"
  printf '%s\n' "$found" | while read -r line; do printf '%s\n' "$expected" | grep -qxF "$line" || echo "  $line"; done
  exit 1
fi
