#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program under valgrind, its children included: an error or a leak is a failure. Status 77: not possible here.
# Usage: under_valgrind.sh <program> [arguments]
if ! command -v valgrind >/dev/null; then
  echo "skipped: there is no valgrind (Debian package valgrind)"
  exit 77
fi
# Memory that is still reachable at the end is the library's for the life of the process, such as its build information.
exec valgrind --quiet --trace-children=yes --error-exitcode=9 --num-callers=30 \
  --leak-check=full --show-leak-kinds=definite,indirect,possible --errors-for-leak-kinds=definite,indirect,possible "$@"
