// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A text as a sequence of tokens, one for each byte. Each printable ASCII character, the tab and the newline have a
// token of their own. All other bytes have the same token.
#ifndef BENCHMARKS_CORPUS_H
#define BENCHMARKS_CORPUS_H

#include <stddef.h>
#include <stdint.h>

enum { kPrintable = 95, kVocabulary = kPrintable + 3 };

typedef struct {
  size_t count;
  uint8_t* tokens;
} Corpus;

// Reads a file. Exits with an error unless the file has more than `least` bytes.
void corpus_read(Corpus* corpus, const char* path, size_t least);
void corpus_free(Corpus* corpus);

#endif
