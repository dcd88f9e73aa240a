// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A text as tokens: a token for each printable character of ASCII, the tab and the newline, and one for all other
// bytes.
#ifndef BENCHMARKS_CORPUS_H
#define BENCHMARKS_CORPUS_H

#include <stddef.h>
#include <stdint.h>

enum { kPrintable = 95, kVocabulary = kPrintable + 3 };

typedef struct {
  size_t count;
  uint8_t* tokens;
} Corpus;

// Reads a file. Exits with an error unless it has more than `least` bytes.
void corpus_read(Corpus* corpus, const char* path, size_t least);
void corpus_free(Corpus* corpus);

#endif
