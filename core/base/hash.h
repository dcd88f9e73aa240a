// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo {

// XXH3 of so many bytes: to tell whether two ranks hold the same, not against an adversary.
uint64_t HashBytes(const void* data, size_t bytes, uint64_t seed);

// The same, with a seed of 0, of bytes that come piece by piece.
class StreamHash {
 public:
  StreamHash();
  void Add(const void* data, size_t bytes);
  uint64_t value() const;

 private:
  alignas(64) unsigned char state_[576];  // of xxhash, whose header stays in one file
};

}  // namespace shampoo
