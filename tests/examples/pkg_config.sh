#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# pkg_config.sh LIBRARY_DIR SOURCE PROGRAM VERSION: compiles and runs a program with what shampoo.pc says.
set -euo pipefail
command -v pkg-config >/dev/null || { echo "skipped: pkg-config is not installed"; exit 77; }
export PKG_CONFIG_PATH=$1/pkgconfig
[ "$(pkg-config --modversion shampoo)" = "$4" ] || { echo "shampoo.pc has another version than $4"; exit 1; }
# shellcheck disable=SC2046  # the flags are words
cc -std=c89 -pedantic -Wall -Wextra -Werror "$2" $(pkg-config --cflags --libs shampoo) -Wl,-rpath,"$1" -o "$3"
[ "$("$3")" = "$4" ] || { echo "the header has another version than $4"; exit 1; }
