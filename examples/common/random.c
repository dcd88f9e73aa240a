// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "random.h"

double random_uniform(uint64_t* random_state) {
  uint64_t z = *random_state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

void random_shuffle(uint64_t* random_state, int count, int* rows) {
  for (int i = count - 1; i > 0; --i) {
    const int j = (int)(random_uniform(random_state) * (i + 1));
    const int row = rows[i];
    rows[i] = rows[j];
    rows[j] = row;
  }
}
