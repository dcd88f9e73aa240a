#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# list_declared.sh COMPILER HEADER: the functions that the header declares, sorted, one a line. The preprocessor has taken
# the comments out, and a name right before a parenthesis is a function: members and callback types are (*name)(.
set -eu
export LC_ALL=C
"$1" -E -P -x c "$2" | grep -o 'shampoo_[a-z0-9_]*(' | tr -d '(' | sort
