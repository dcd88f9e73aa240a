// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo {

// XXH3 of so many bytes: to tell whether two ranks hold the same, not against an adversary.
uint64_t HashBytes(const void* data, size_t bytes, uint64_t seed);

}  // namespace shampoo
