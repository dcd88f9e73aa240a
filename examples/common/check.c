// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fflush(stdout);
  fprintf(stderr, "%s: ", program_name);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

void* allocate(size_t count, size_t size) {
  void* memory = calloc(count, size);
  if (memory == NULL) fail("out of memory: %zu elements of %zu bytes", count, size);
  return memory;
}

FILE* open_file(const char* path, const char* mode) {
  FILE* file = fopen(path, mode);
  if (file == NULL) fail("cannot open %s: %s", path, strerror(errno));
  return file;
}

void close_file(FILE* file, const char* path) {
  const int failed = ferror(file);  // fclose does not report earlier failures
  if (fclose(file) != 0 || failed) fail("cannot read or write all of %s: %s", path, strerror(errno));
}
