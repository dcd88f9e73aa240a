#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# check_jni.sh COMMAND...: runs the command. Fails if the command fails, or if -Xcheck:jni reports a problem.
output=$("$@" 2>&1)
status=$?
printf '%s\n' "$output" | tail -n 60
if printf '%s\n' "$output" | grep -E -A 5 'WARNING in native method|FATAL ERROR in native method|WARNING: JNI local refs'; then
  echo "check_jni: the lines above were printed by -Xcheck:jni"
  exit 1
fi
exit $status
