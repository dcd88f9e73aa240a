#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# bash cmake/install_packages.sh PACKAGE...
#
# Installs missing Debian packages, as root or with sudo. Does nothing if no package is missing.
set -euo pipefail

if ! command -v dpkg-query >/dev/null; then
  echo "packages: this is not a Debian system; assuming that equivalents of these packages are installed: $*"
  exit 0
fi

missing=()
for package in "$@"; do
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true) == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  echo "packages: all $# are installed"
  exit 0
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "packages: ${#missing[@]} of $# are missing, and they cannot be installed without root or sudo." >&2
    echo "Run as root:  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp "${TMPDIR:-/tmp}/install_packages.XXXXXX")
quietly() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >>"$log" 2>&1; then
    tail -n 15 "$log" >&2
    echo "packages: this command failed: $*" >&2
    echo "packages: the log is $log" >&2
    exit 1
  fi
}

echo "packages: downloading the package lists"
quietly apt-get update -q
echo "packages: installing ${#missing[@]} of $#: ${missing[*]}"
quietly apt-get install -q -y --no-install-recommends "${missing[@]}"
rm -f "$log"
