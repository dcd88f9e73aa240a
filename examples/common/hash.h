// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// FNV-1a hash. Equal hashes show that two runs or two data sets are bit-identical.
#ifndef EXAMPLES_HASH_H
#define EXAMPLES_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

// Returns the hash of the concatenation of earlier bytes and `bytes`. `hash` is the hash of the earlier bytes, or
// HASH_START if there are none.
static inline uint64_t hash_bytes(uint64_t hash, const void* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) hash = (hash ^ ((const unsigned char*)bytes)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

#endif
