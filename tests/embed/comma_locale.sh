#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Compiles a locale with decimal commas, because the system may have no such locale. Then runs the program comma_locale
# (comma_locale.cc) with this locale.
# Usage: comma_locale.sh <program> <folder for the locale>
set -eu
name=de_DE.UTF-8
if [ ! -d "$2/$name" ]; then
  mkdir -p "$2"
  # The status of localedef is nonzero even after mere warnings. The program checks whether the locale exists.
  localedef -i de_DE -f UTF-8 "$2/$name" || echo "localedef reports problems: is the package \"locales\" installed?"
fi
LOCPATH=$2 exec "$1" "$name"
