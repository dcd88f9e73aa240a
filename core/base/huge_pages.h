// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace shampoo {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Asks for huge pages where they fit whole: a column of a large matrix meets a page of its own with every element, and
// most of its time is spent on finding them. A wish: where the system does not grant it, nothing changes.
inline void AdviseHugePages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  const size_t whole = bytes / kHugePage * kHugePage;
  if (whole > 0) (void)madvise(memory, whole, MADV_HUGEPAGE);
#endif
}

}  // namespace shampoo
