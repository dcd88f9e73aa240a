#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_needed.sh READELF LIBRARY NAMES: the library can be loaded where lib<name>.so is not there, for each of the names, an
# extended regular expression.
set -eu
needed=$("$1" -d "$2" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p')
# One that needs nothing was not read.
printf '%s\n' "$needed" | grep -q '^libc\.so' || { echo "$2: no libc.so among what it needs: $needed"; exit 1; }
if printf '%s\n' "$needed" | grep -E "^lib($3)\.so"; then
  echo "$2 needs these"
  exit 1
fi
