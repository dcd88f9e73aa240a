// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo {

// Returns the 64-bit XXH3 hash of `bytes` bytes. The hash detects differences and damage, but does not protect against
// an attacker.
uint64_t HashBytes(const void* data, size_t bytes, uint64_t seed);

// Computes the hash that HashBytes() returns with seed 0, for bytes that arrive in pieces.
class StreamHash {
 public:
  StreamHash();
  void Add(const void* data, size_t bytes);
  uint64_t value() const;

 private:
  alignas(64) unsigned char state_[576];  // an XXH3_state_t; only hash.cc includes xxhash.h
};

}  // namespace shampoo
