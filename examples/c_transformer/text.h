// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the model learns from: about a million characters of small stories, which this program invents by a grammar.
// They are the same in every run.
//
// To foretell the next character takes knowledge of several kinds and ranges: words; which of them follow each other;
// verbs in the number of a subject that stands before a relative clause; names that recur in a story, and "he" or "she"
// by their last letter; brackets that close in the order in which they opened; sums that are right; and who owns how
// many apples, over a whole story.
#ifndef C_TRANSFORMER_TEXT_H
#define C_TRANSFORMER_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int vocab;             // number of distinct characters
  char characters[256];  // [vocab], in rising order
  size_t count;          // characters to learn from
  size_t judged;         // characters to judge with; they come after the others
  uint8_t* tokens;       // [count + judged], each in [0, vocab)
} Text;

void text_create(Text* text, size_t count, size_t judged);
void text_free(Text* text);

#endif
