#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# make_every_slot.sh EXPORTS OUTPUT: writes a C89 program to the file OUTPUT. For each name in the file EXPORTS except
# shampoo_get_api, the program compares the function in the table shampoo_api with the function that dlsym finds under
# this name.
set -eu
export LC_ALL=C
names=$(grep -vx shampoo_get_api "$1" | sed 's/^shampoo_//')
test -n "$names"
{
  cat <<'END'
/* Generated from tests/capi/exports.txt. */
#include <dlfcn.h>
#include <shampoo/api.h>
#include <stdio.h>
#include <string.h>

typedef void (*any_function)(void);

static int wrong = 0, count = 0;

static void check(void* library, const char* name, any_function in_table) {
  void* const exported = dlsym(library, name);
  ++count;
  if (exported != NULL && memcmp(&exported, &in_table, sizeof exported) == 0) return;
  ++wrong;
  printf("the function in the table is not the exported function %s\n", name);
}

int main(int argc, char** argv) {
  void* const library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  shampoo_get_api_function get_api;
  const shampoo_api* api;
  void* found;
  size_t expected;
  if (library == NULL || (found = dlsym(library, "shampoo_get_api")) == NULL) return puts(dlerror()), 2;
  memcpy(&get_api, &found, sizeof found);
  api = get_api();
END
  for name in $names; do
    printf '  check(library, "shampoo_%s", (any_function)api->%s);\n' "$name" "$name"
  done
  cat <<'END'
  expected = sizeof(size_t) + (size_t)count * sizeof(any_function);
  printf("compared %d functions, of which %d are wrong; the table has %lu bytes: expected %lu bytes\n", count, wrong,
         (unsigned long)api->struct_size, (unsigned long)expected);
  return wrong == 0 && api->struct_size == expected && sizeof *api == expected && api == get_api() ? 0 : 1;
}
END
} > "$2"
