#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_declared.sh COMPILER HEADER EXPORTS: fails unless the list of exports names exactly the functions that the
# header and the headers it includes declare.
set -eu
if ! sh "$(dirname "$0")/list_declared.sh" "$1" "$2" | diff "$3" -; then
  echo "Above, names with < are listed in $3 and not declared."
  echo "Names with > are declared in $2 and not listed, or the list is not sorted."
  exit 1
fi
