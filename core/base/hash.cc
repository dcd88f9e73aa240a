// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.h"

// Inlines xxHash into this file, so that the library shares no symbol with a copy of xxHash in the application.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shampoo {

uint64_t HashBytes(const void* data, size_t bytes, uint64_t seed) { return XXH3_64bits_withSeed(data, bytes, seed); }

namespace {

XXH3_state_t* StateIn(unsigned char* bytes) { return reinterpret_cast<XXH3_state_t*>(bytes); }

}  // namespace

StreamHash::StreamHash() {
  static_assert(sizeof state_ == sizeof(XXH3_state_t) && alignof(XXH3_state_t) <= 64);
  XXH3_INITSTATE(StateIn(state_));
  XXH3_64bits_reset(StateIn(state_));
}

void StreamHash::Add(const void* data, size_t bytes) { XXH3_64bits_update(StateIn(state_), data, bytes); }

uint64_t StreamHash::value() const { return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t*>(state_)); }

}  // namespace shampoo
