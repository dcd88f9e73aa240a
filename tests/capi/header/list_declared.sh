#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# list_declared.sh COMPILER HEADER: prints a sorted list of the functions that are declared in HEADER and in the headers
# that HEADER includes. The preprocessor first removes the comments. Then every name right before a parenthesis is a
# function, because pointers to functions have the form (*name)(. -DSWIG hides inline functions.
set -eu
export LC_ALL=C
"$1" -E -P -x c -DSWIG -I"$(dirname "$2")/.." "$2" | grep -o 'shampoo_[a-z0-9_]*(' | tr -d '(' | sort
