#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# bash cmake/arm64_packages.sh FOLDER
#
# Downloads the arm64 packages of Debian that the build needs, and unpacks them into FOLDER for builds with arm64.cmake.
# Does not change the system and does not need root. Does nothing if FOLDER is already complete.
set -euo pipefail
[[ $# -eq 1 ]] || { sed -n '5p' "$0" | sed 's/^# /usage: /' >&2; exit 2; }
[[ ! -e $1/complete ]] || exit 0

rm -rf "$1"
mkdir -p "$1"/{lists/partial,cache/archives/partial,packages}
cd "$1"
folder=$PWD
options=(-qq -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64)
# By default, apt-get downloads as another user, and prints a warning if that user may not write to the folder.
options+=(-o APT::Sandbox::User="$(id -un)")
apt-get "${options[@]}" update
cd packages
apt-get "${options[@]}" download libopenblas-serial-dev liblapacke-dev libxxhash-dev nlohmann-json3-dev
for package in *.deb; do dpkg-deb -x "$package" "$folder"; done
touch "$folder/complete"
