#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# extract_example.sh HEADER OUTPUT: writes the first @code block of HEADER to OUTPUT, without the stars of the comment.
set -eu
awk '/@endcode/ { exit } inside { sub(/^ \* ?/, ""); print } /@code/ { inside = 1 }' "$1" > "$2"
test -s "$2"
