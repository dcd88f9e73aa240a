// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef C_TRANSFORMER_RANDOM_H
#define C_TRANSFORMER_RANDOM_H

#include <stdint.h>

// Returns the next number of the generator splitmix64, in [0, 1).
static inline double random_uniform(uint64_t* random_state) {
  uint64_t z = *random_state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

// Returns a random integer in [0, count).
static inline int random_below(uint64_t* random_state, int count) {
  return (int)(random_uniform(random_state) * count);
}

#endif
