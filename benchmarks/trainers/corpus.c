// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "corpus.h"

#include <stdlib.h>

#include "check.h"

static uint8_t token_of(uint8_t byte) {
  if (byte >= ' ' && byte < ' ' + kPrintable) return (uint8_t)(byte - ' ');
  if (byte == '\t') return kPrintable;
  return byte == '\n' ? kPrintable + 1 : kPrintable + 2;
}

void corpus_read(Corpus* corpus, const char* path, size_t least) {
  FILE* file = open_file(path, "rb");
  if (fseek(file, 0, SEEK_END) != 0) fail("cannot find the end of %s", path);
  const long size = ftell(file);
  rewind(file);
  if (size <= 0 || (size_t)size <= least)
    fail("%s has %ld bytes; expected more than %zu, the value of --context", path, size, least);
  corpus->count = (size_t)size;
  corpus->tokens = allocate(corpus->count, 1);
  if (fread(corpus->tokens, 1, corpus->count, file) != corpus->count) fail("cannot read all of %s", path);
  for (size_t i = 0; i < corpus->count; ++i) corpus->tokens[i] = token_of(corpus->tokens[i]);
  close_file(file, path);
}

void corpus_free(Corpus* corpus) { free(corpus->tokens); }
