// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The handwritten digits: 8x8 images and their labels. ../c_mlp/data/README.md describes their source.
#ifndef EXAMPLES_DIGITS_H
#define EXAMPLES_DIGITS_H

#include "real.h"

enum { kDigitPixels = 64, kDigitClasses = 10 };

typedef struct {
  int train_count;  // number of training images, which come first in the arrays below
  int test_count;   // number of test images
  real* images;     // [train_count + test_count][kDigitPixels], row by row, each pixel in [0, 1]
  int* labels;      // [train_count + test_count], each in [0, 10)
} Digits;

// Reads a file that ../c_mlp/data/make_digits.py wrote.
void digits_load(Digits* digits, const char* path);
void digits_free(Digits* digits);

#endif
