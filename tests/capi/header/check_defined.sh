#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_defined.sh NM LIBRARY EXPORTS: fails unless LIBRARY exports exactly the names that the file EXPORTS lists, as
# functions with the symbol version SHAMPOO_0. The symbol SHAMPOO_0 itself is absolute and is ignored.
set -eu
export LC_ALL=C
expected=$(sed 's/$/@@SHAMPOO_0 T/' "$3")
found=$("$1" -D --defined-only "$2" | awk '!($2 == "A" && $3 ~ /^SHAMPOO_0(@|$)/) { print $3, $2 }' | sort)
if [ "$found" != "$expected" ]; then
  echo "Names that $3 lists but $2 does not export as NAME@@SHAMPOO_0 T:"
  printf '%s\n' "$expected" | while read -r line; do printf '%s\n' "$found" | grep -qxF "$line" || echo "  $line"; done
  echo "Names that $2 exports but $3 does not list:"
  printf '%s\n' "$found" | while read -r line; do printf '%s\n' "$expected" | grep -qxF "$line" || echo "  $line"; done
  exit 1
fi
