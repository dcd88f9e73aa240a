#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_keys.sh PRINT_KEYS PAGE: fails unless PAGE equals the output of the program PRINT_KEYS.
set -u
made=$(mktemp) || exit 1
trap 'rm -f "$made"' EXIT
"$1" > "$made" || exit 1
cmp -s "$2" "$made" && exit 0
diff -u "$2" "$made"
echo "$2 differs from the library's table of keys. Check the difference above and generate the page again:"
echo "  $1 > $2"
exit 1
