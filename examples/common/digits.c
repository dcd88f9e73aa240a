// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Format of the file that digits_load() reads:
//   "digits8\n"                       8 bytes that identify the format
//   train_count, test_count           2 bytes each, little-endian
//   per image: 64 pixels, its label   65 bytes; a pixel is 0 (paper) to 16 (ink)
#include "digits.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { kHeaderBytes = 12, kImageBytes = kDigitPixels + 1, kInk = 16 };

void digits_load(Digits* digits, const char* path) {
  unsigned char header[kHeaderBytes];
  unsigned char bytes[kImageBytes];
  FILE* file = open_file(path, "rb");
  if (fread(header, 1, kHeaderBytes, file) != kHeaderBytes || memcmp(header, "digits8\n", 8) != 0) {
    fail("%s does not begin with \"digits8\" and two counts; expected a file that c_mlp/data/make_digits.py wrote",
         path);
  }
  digits->train_count = header[8] + 256 * header[9];
  digits->test_count = header[10] + 256 * header[11];
  const int count = digits->train_count + digits->test_count;
  digits->images = allocate((size_t)count * kDigitPixels, sizeof(real));
  digits->labels = allocate((size_t)count, sizeof(int));

  for (int i = 0; i < count; ++i) {
    if (fread(bytes, 1, kImageBytes, file) != kImageBytes)
      fail("%s has %d complete images; expected %d", path, i, count);
    for (int p = 0; p < kDigitPixels; ++p) {
      if (bytes[p] > kInk) fail("%s: image %d has a pixel of value %d; expected 0 to %d", path, i, bytes[p], kInk);
      digits->images[i * kDigitPixels + p] = (real)bytes[p] / kInk;
    }
    if (bytes[kDigitPixels] >= kDigitClasses)
      fail("%s: image %d has the label %d; expected 0 to 9", path, i, bytes[kDigitPixels]);
    digits->labels[i] = bytes[kDigitPixels];
  }
  close_file(file, path);
}

void digits_free(Digits* digits) {
  free(digits->images);
  free(digits->labels);
}
