#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# deb.sh ROOT PACKAGES SOURCE VERSION: tests the Debian packages in the folder PACKAGES. ROOT is the minimal Debian that
# root.sh creates, and the tests run in a copy of it. SOURCE is the repository. Checks that the packages can be
# installed, that the first C program of README.md builds and runs with them, and that removing the packages leaves no
# files.
set -euo pipefail
source "$(dirname "$0")/root.sh"
packages=$2 source=$3 version=$4
make_root "$1"
copy_root "$1"

if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning "$packages"/*.deb
fi
for package in "$packages"/*.deb; do
  dpkg-deb --field "$package" Homepage | grep -q '^https://' || { echo "$package has no Homepage"; exit 1; }
done
mkdir "$root/packages" "$root/program"
cp "$packages"/*.deb "$root/packages"
code_of "$source/README.md" c >"$root/program/program.c"
grep -q 'int main' "$root/program/program.c"

# The package libshampoo0 must be enough to run a program that was built outside of the minimal Debian.
install /packages/libshampoo0_*.deb
cc -I"$source/capi/include" "$root/program/program.c" "$root"/usr/lib/*/libshampoo.so.0 -o "$root/program/of_host"
inside /program/of_host | grep '^w = '

# The package libshampoo-dev must be enough to build a program.
install /packages/libshampoo-dev_*.deb /packages/shampoo-tools_*.deb gcc libc6-dev libstdc++-12-dev pkg-config
inside 'cd /program && cc program.c $(pkg-config --cflags --libs shampoo) -o program && ./program' | grep '^w = '
inside 'cd /program && cc -static program.c $(pkg-config --static --libs shampoo) -o program && ./program' | grep '^w = '
[ -s "$root/usr/include/shampoo/api.h" ] || { echo 'libshampoo-dev has no shampoo/api.h'; exit 1; }
inside 'shampoo-ckpt --version' | grep -F "$version"
for package in libshampoo0 libshampoo-dev shampoo-tools; do
  for file in copyright LICENSE THIRD_PARTY_NOTICES changelog.Debian.gz; do
    [ -s "$root/usr/share/doc/$package/$file" ] || { echo "$package has no $file"; exit 1; }
  done
done

# If the CUDA backend was built, it must be possible to install its package without CUDA. The library must then report what is missing.
if ls "$packages"/libshampoo0-cuda_*.deb >/dev/null 2>&1; then
  install /packages/libshampoo0-cuda_*.deb
  cat >"$root/program/backends.c" <<'C'
#include <shampoo/shampoo.h>
#include <stdio.h>
int main(void) {
  shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
  if (shampoo_backend_describe(1, &info) != SHAMPOO_OK) return 1;
  puts(info.unavailable_reason);
  return info.usable;
}
C
  inside 'cd /program && cc backends.c -lshampoo -o backends && ./backends' | grep 'libshampoo_cuda.so.0 cannot be loaded: libcu'
fi

inside 'apt-get -qq purge libshampoo0 shampoo-tools >/dev/null 2>&1'
left=$(find "$root/usr" "$root/etc" -name '*shampoo*')
[ -z "$left" ] || { printf 'files that the removed packages have left:\n%s\n' "$left"; exit 1; }
echo "the packages work in a minimal Debian"
