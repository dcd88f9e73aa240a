// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.h"

// Compiled into this file, so that no symbol of it is shared with the host's copy.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shampoo {

uint64_t HashBytes(const void* data, size_t bytes, uint64_t seed) { return XXH3_64bits_withSeed(data, bytes, seed); }

}  // namespace shampoo
