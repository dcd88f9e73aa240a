#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_declared.sh COMPILER HEADER EXPORTS: fails unless the file EXPORTS lists exactly the functions that are
# declared in HEADER and in the headers that HEADER includes.
set -eu
if ! sh "$(dirname "$0")/list_declared.sh" "$1" "$2" | diff "$3" -; then
  echo "Above, < marks names that are listed in $3 but not declared in $2."
  echo "> marks names that are declared in $2 but not listed. The list must also be sorted."
  exit 1
fi
