#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_needed.sh READELF LIBRARY NAMES: checks that LIBRARY does not need lib<name>.so for any <name> that matches the
# extended regular expression NAMES. READELF is a program such as readelf.
set -eu
needed=$("$1" -d "$2" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p')
# Every library needs libc.so. If libc.so is missing in the list, READELF has failed.
printf '%s\n' "$needed" | grep -q '^libc\.so' || { echo "$2: libc.so is not among the libraries that it needs: $needed"; exit 1; }
if printf '%s\n' "$needed" | grep -E "^lib($3)\.so"; then
  echo "$2 needs the libraries above, which it must not need"
  exit 1
fi
