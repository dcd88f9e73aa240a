// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The text: about a million characters of short stories that a grammar generates. The text is the same in every run.
//
// A model that predicts the next character must learn the following things, some of which depend on characters far back
// in the text:
// - words and their order;
// - whether a verb is singular or plural, even if a relative clause separates the verb from its subject;
// - names that recur in a story, and the pronoun of each name, which the last letter of the name determines;
// - matching brackets and correct sums;
// - how many apples each person has, over a whole story.
#ifndef C_TRANSFORMER_TEXT_H
#define C_TRANSFORMER_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int vocab;                // number of distinct characters
  char characters[256];     // [vocab], in ascending order
  size_t count;             // number of training characters
  size_t validation_count;  // number of validation characters, which follow the training characters
  uint8_t* tokens;          // [count + validation_count], each in [0, vocab)
} Text;

void text_create(Text* text, size_t count, size_t validation_count);
void text_free(Text* text);

#endif
