#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# archive_exports.sh ARCHIVE NAMES: fails unless the archive exports exactly the functions that the file NAMES lists.
set -euo pipefail
defined=$(nm -g --defined-only "$1" | sed -n 's/^[0-9a-f]* //p')
diff <(sed 's/^/T /' "$2") <(sort <<<"$defined")
