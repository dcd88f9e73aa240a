#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# list_declared.sh COMPILER HEADER: prints the functions that the header and the headers it includes declare, sorted,
# one on each line. The preprocessor removes the comments; a name right before a parenthesis is then a function, because
# members and callback types are (*name)(. Inline functions are omitted: the headers hide them if SWIG is defined.
set -eu
export LC_ALL=C
"$1" -E -P -x c -DSWIG -I"$(dirname "$2")/.." "$2" | grep -o 'shampoo_[a-z0-9_]*(' | tr -d '(' | sort
