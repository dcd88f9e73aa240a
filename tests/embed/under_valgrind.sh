#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program and its children under valgrind. Errors and leaks are failures. Exits with 77 if there is no valgrind.
# Usage: under_valgrind.sh <program> [arguments]
if ! command -v valgrind >/dev/null; then
  echo "skipped: there is no valgrind (Debian package valgrind)"
  exit 77
fi
# Memory that is still reachable at exit is ignored: the library keeps some, such as the build information, permanently.
exec valgrind --quiet --trace-children=yes --error-exitcode=9 --num-callers=30 \
  --leak-check=full --show-leak-kinds=definite,indirect,possible --errors-for-leak-kinds=definite,indirect,possible "$@"
