#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# no_thread_destructors.sh NM LIBRARY...: fails if a library has a thread-local variable with a destructor. Registering
# a destructor allocates memory, and the C library ends the process if the allocation fails.
set -eu
nm=$1
shift
for library; do
  undefined=$("$nm" -D --undefined-only "$library")
  # Every library uses malloc. If malloc is not in the list, nm has not read the library.
  printf '%s\n' "$undefined" | grep -q ' malloc\(@\|$\)' || { echo "$library: malloc is not among its undefined symbols: $undefined"; exit 1; }
  if printf '%s\n' "$undefined" | grep '__cxa_thread_atexit'; then
    echo "$library registers destructors of thread-local variables with __cxa_thread_atexit"
    exit 1
  fi
done
