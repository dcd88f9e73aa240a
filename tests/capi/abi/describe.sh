#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# describe.sh LIBRARY INCLUDE_DIR OUTPUT: writes abidw's description of the library's interface to OUTPUT. The
# description omits all types that are not in the public headers. Paths of source files are reduced to file names,
# because abidiff needs only the names to distinguish the files.
set -eu
# abidiff has options to omit private types, but with these options, abidiff 2.2 cannot read files that abidw wrote.
# Therefore this script omits private types, both from the baseline and from the description that is compared with it.
abidw --headers-dir "$2" --drop-private-types --exported-interfaces-only --no-architecture --no-corpus-path \
      --no-comp-dir-path --no-show-locs --no-elf-needed --out-file "$3.made" "$1"
sed "s| path='[^']*/| path='|" "$3.made" > "$3"
rm "$3.made"
symbols=$(grep -c "<elf-symbol " "$3") functions=$(grep -c "<function-decl name='shampoo_" "$3")
if [ "$symbols" -ne "$functions" ]; then
  echo "$functions of $symbols exported symbols are described: the compiler merged equal functions (-fipa-icf)" >&2
  exit 1
fi
if grep -nE "'/[a-z]" "$3"; then
  echo "the description of $1 contains the paths of this machine that are printed above" >&2
  exit 1
fi
