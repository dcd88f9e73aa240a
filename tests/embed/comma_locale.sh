#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs comma_locale with a locale made for it, as the system need not have one with decimal commas.
# Usage: comma_locale.sh <program> <folder for the locale>
set -eu
name=de_DE.UTF-8
if [ ! -d "$2/$name" ]; then
  mkdir -p "$2"
  # Statuses of localedef tell of warnings, too: what counts is whether the program finds the locale.
  localedef -i de_DE -f UTF-8 "$2/$name" || echo "localedef did not make $name: is the Debian package locales installed?"
fi
LOCPATH=$2 exec "$1" "$name"
