#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# install_packages.sh PACKAGE...: installs the Debian packages that are missing, with apt-get.
# Does nothing, and needs no network, where all are there. Uses sudo where the caller is not root.
set -euo pipefail

missing=()
for package in "$@"; do
  if ! dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed; then
    missing+=("$package")
  fi
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    printf 'These packages are missing: %s\nInstall them as root:  apt-get install %s\n' "${missing[*]}" "${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

printf '== installing %s\n' "${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 && return
  tail -n 30 "$log" >&2
  printf 'This failed, see above: %s\n' "$*" >&2
  exit 1
}
run apt-get update
run apt-get install --yes --no-install-recommends "${missing[@]}"
