#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# update_baseline.sh LIBRARY: writes libshampoo.abi, the description of the ABI with which the test capi.abi.baseline
# compares later builds. LIBRARY must be built for x86_64 with debug information (CMAKE_BUILD_TYPE=RelWithDebInfo) and
# without sanitizers.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if ! readelf --section-headers --wide "$1" | grep -qF .debug_info; then
  echo "$1 has no debug information: build with CMAKE_BUILD_TYPE=RelWithDebInfo" >&2
  exit 1
fi
sh "$here/describe.sh" "$1" "$here/../../../capi/include" "$here/libshampoo.abi"
