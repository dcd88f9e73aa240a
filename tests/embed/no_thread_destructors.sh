#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# no_thread_destructors.sh NM LIBRARY...: no library has a thread-local variable with a destructor. Registering one takes
# memory, and the C library ends the process where there is none.
set -eu
nm=$1
shift
for library; do
  undefined=$("$nm" -D --undefined-only "$library")
  # One that uses nothing was not read.
  printf '%s\n' "$undefined" | grep -q ' malloc\(@\|$\)' || { echo "$library: no malloc among what it uses: $undefined"; exit 1; }
  if printf '%s\n' "$undefined" | grep '__cxa_thread_atexit'; then
    echo "$library uses this"
    exit 1
  fi
done
