#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# compare.sh BASELINE LIBRARY INCLUDE_DIR OUTPUT SANITIZERS PROCESSOR: writes a description of the library's interface
# to OUTPUT, and fails if the description differs from BASELINE. New functions are not reported here, because the tests
# capi.exports.* compare the functions with tests/capi/exports.txt. Any other difference is an error, even a renamed
# field. Exits with 77 and prints the reason if no comparison is possible.
set -eu
baseline=$1 library=$2 include_dir=$3 output=$4 sanitizers=$5 processor=$6
here=$(cd "$(dirname "$0")" && pwd)
skip() {
  echo "skipped: $1"
  exit 77
}
command -v abidw > /dev/null && command -v abidiff > /dev/null || skip "abidw and abidiff were not found: install abigail-tools"
[ -z "$sanitizers" ] || skip "the library was built with -fsanitize=$sanitizers, which changes its interface"
[ "$processor" = x86_64 ] || skip "the baseline is for x86_64, and this machine is $processor"
readelf --section-headers --wide "$library" | grep -qF .debug_info ||
  skip "the library has no debug information, so its types are unknown: build with CMAKE_BUILD_TYPE=RelWithDebInfo"

sh "$here/describe.sh" "$library" "$include_dir" "$output"
status=0
abidiff --harmless --no-added-syms --no-show-locs "$baseline" "$output" || status=$?
[ "$status" -eq 0 ] && exit 0
cat <<END

The interface of $library differs from $baseline
(abidiff's status is $status, a sum of these numbers: 1 and 2 are errors of abidiff, 4 is a change, and 8 means that the
change is incompatible).
Fields may be added at the end of a released struct. Any other change of a released struct is forbidden. Every change or
removal of a released function is also forbidden. If the change above is intended and allowed, make a new baseline from
a RelWithDebInfo build, read how it differs from the old baseline, and commit it with the change:

    sh $here/update_baseline.sh $library
END
exit 1
