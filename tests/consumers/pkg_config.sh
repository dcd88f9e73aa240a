#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# pkg_config.sh KIND LIBRARY_DIR SOURCE PROGRAM VERSION: compiles SOURCE to PROGRAM with the flags of shampoo.pc, and
# checks that PROGRAM runs and prints VERSION. KIND is one of:
#   shared    links PROGRAM with libshampoo.so
#   archive   links PROGRAM with libshampoo.a and the shared libraries of the system
#   cxx       links PROGRAM as for KIND archive, but compiles C++, without optimization
#   static    links PROGRAM only with static archives
#   loads     does not link PROGRAM with the library: PROGRAM loads libshampoo.so when it runs
set -euo pipefail
command -v pkg-config >/dev/null || { echo "skipped: pkg-config is not installed"; exit 77; }
kind=$1 libraries=$2 source=$3 program=$4 version=$5
export PKG_CONFIG_PATH=$libraries/pkgconfig
[ "$(pkg-config --modversion shampoo)" = "$version" ] || { echo "shampoo.pc has another version than $version"; exit 1; }

# shellcheck disable=SC2046  # the shell must split the flags into words
compile() {
  cc -std=c89 -pedantic -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200112L $(pkg-config --cflags shampoo) "$source" "$@" -o "$program"
}
arguments=()
# shellcheck disable=SC2046
case $kind in
  shared) compile $(pkg-config --libs shampoo) -Wl,-rpath,"$libraries" ;;
  archive) compile -Wl,-Bstatic $(pkg-config --libs shampoo) -Wl,-Bdynamic $(pkg-config --static --libs shampoo | sed 's/-lshampoo//') ;;
  cxx) c++ -O0 -std=c++11 -Wall -Wextra -Werror $(pkg-config --cflags shampoo) "$source" "$libraries/libshampoo.a" -ldl -pthread -o "$program" ;;
  static) compile -static $(pkg-config --static --libs shampoo) ;;
  loads)
    compile -DPROGRAM_LOADS -Wno-long-long -ldl
    arguments=("$libraries/libshampoo.so")
    ;;
esac
printed=$("$program" "${arguments[@]}") || { echo "the program failed; it printed: ${printed:-nothing}"; exit 1; }
[ "$printed" = "$version" ] || { echo "the header has another version than $version"; exit 1; }

# A program of kind shared must depend on libshampoo.so. Programs of other kinds must not depend on
# libshampoo.so. A program of kind static must not depend on any shared library.
needed=$(readelf -d "$program" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
case $kind in
  shared) grep -q libshampoo.so <<<"$needed" ;;
  archive | cxx | loads) ! grep -q shampoo <<<"$needed" ;;
  static) [ -z "$needed" ] ;;
esac || { printf 'the program needs:\n%s\n' "$needed"; exit 1; }
