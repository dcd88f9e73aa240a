#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# list_declared.sh COMPILER HEADER: prints a sorted list of the functions that are declared in HEADER and in the headers
# that HEADER includes. The preprocessor first removes the comments. Then each name directly before an opening
# parenthesis is a function: the name of a pointer to a function is followed by a closing parenthesis, as in
# (*name)(int). -DSWIG hides inline functions.
set -eu
export LC_ALL=C
"$1" -E -P -x c -DSWIG -I"$(dirname "$2")/.." "$2" | grep -o 'shampoo_[a-z0-9_]*(' | tr -d '(' | sort
