#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# wheel.sh ROOT FOLDER SOURCE: tests the wheel in FOLDER. ROOT is the minimal Debian that root.sh creates, and the tests
# run in a copy of it, with Python and NumPy. SOURCE is the repository. Checks that the first program of docs/python.md
# runs.
set -euo pipefail
source "$(dirname "$0")/root.sh"
make_root "$1"
copy_root "$1"
mkdir "$root/packages" "$root/program"
cp "$2"/*.whl "$root/packages"
code_of "$3/docs/python.md" python >"$root/program/program.py"
echo 'print(w)' >>"$root/program/program.py"
install python3 python3-venv python3-numpy
version=$(inside "python3 -c 'import sys; print(\"cp%d%d\" % sys.version_info[:2])'")
ls "$root"/packages/*"$version"*.whl >/dev/null 2>&1 || skip "the wheel was not built for Debian's Python ($version)"
inside 'python3 -m venv --system-site-packages /venv && /venv/bin/pip install -q --no-index --no-deps /packages/*.whl'
inside 'cd /program && /venv/bin/python program.py'
for file in LICENSE THIRD_PARTY_NOTICES; do
  [ -n "$(find "$root/venv" -path "*shampoo*/$file")" ] || { echo "the wheel has no $file"; exit 1; }
done
