#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_format.sh CLANG_FORMAT: lists every source file whose format differs from .clang-format.
set -euo pipefail
if [ ! -x "${1:-}" ]; then
  echo "skipped: clang-format is not installed (Debian package clang-format)"
  exit 77
fi
if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  echo "skipped: this is not a git checkout"
  exit 77
fi
# Files in the root of the repository are not checked, because users may keep their own programs there.
git ls-files -z --cached --others --exclude-standard -- '*/*.c' '*/*.cc' '*/*.cu' '*/*.h' | xargs -0 "$1" --dry-run --Werror
