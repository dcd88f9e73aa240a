#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# make_every_name.sh COMPILER HEADER OUTPUT: writes a C89 program that initializes every struct with its _INIT macro
# and takes the address of every function. The argument of the program is the path of a file with one line for each
# function. The program fails if the file has more or fewer lines than there are functions. The struct shampoo_api has
# no macro, because only the library fills it.
set -eu
export LC_ALL=C
functions=$(sh "$(dirname "$0")/list_declared.sh" "$1" "$2")
structs=$("$1" -E -P -x c -I"$(dirname "$2")/.." "$2" |
  sed -n 's/^ *typedef struct \(shampoo_[a-z0-9_]*\) {.*/\1/p' | grep -vx shampoo_api | sort)
test -n "$functions" && test -n "$structs"
{
  cat <<'END'
/* Generated from api.h and shampoo.h. */
#include <shampoo/api.h>
#include <stdio.h>

typedef void (*any_function)(void);
static const any_function functions[] = {
END
  printf '    (any_function)%s,\n' $functions | sed '$ s/,$//'
  printf '};\n\n'
  for name in $structs; do
    printf 'static const %s made_%s = %s_INIT;\n' "$name" "$name" "$(printf '%s' "$name" | tr a-z A-Z)"
  done
  cat <<'END'

int main(int argc, char** argv) {
  const size_t count = sizeof functions / sizeof functions[0];
  size_t i, lines = 0;
  int character, wrong = 0;
  FILE* file = argc == 2 ? fopen(argv[1], "r") : NULL;
  if (file == NULL) return 2;
  while ((character = getc(file)) != EOF) lines += character == '\n';
  fclose(file);
  for (i = 0; i < count; ++i) wrong += functions[i] == NULL;
END
  # A shampoo_tensor has no struct_size: its size is an argument of shampoo_create_sized().
  printf '  wrong += made_%s.struct_size == 0;\n' $(printf '%s\n' $structs | grep -vx shampoo_tensor)
  printf '  wrong += made_shampoo_tensor.ndim != 0;\n'
  cat <<'END'
  printf("%lu functions, %lu expected, %d wrong\n", (unsigned long)count, (unsigned long)lines, wrong);
  return wrong == 0 && count == lines ? 0 : 1;
}
END
} > "$3"
