// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The handwritten digits: 8x8 images and what they show. ../c_mlp/data/README.md tells where they come from.
#ifndef C_CONV_DIGITS_H
#define C_CONV_DIGITS_H

#include "real.h"

typedef struct {
  int train_count;  // images to learn from; they come first in the arrays below
  int test_count;   // images to judge with
  real* images;     // [train_count + test_count][8][8], each pixel in [0, 1]
  int* labels;      // [train_count + test_count], each in [0, 10)
} Digits;

// Reads a file as ../c_mlp/data/make_digits.py writes it.
void digits_load(Digits* digits, const char* path);
void digits_free(Digits* digits);

#endif
