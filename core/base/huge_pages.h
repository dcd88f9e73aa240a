// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace shampoo {

inline constexpr size_t kHugePage = size_t{2} << 20;  // size of a huge page in bytes

// Requests huge pages for the first `bytes` bytes of `memory`, rounded down to whole huge pages. With small pages, each
// element of a column of a large matrix is in a different page, so that a walk down the column spends most of its time
// on address translation. The system may ignore the request.
inline void AdviseHugePages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  const size_t whole = bytes / kHugePage * kHugePage;
  if (whole > 0) (void)madvise(memory, whole, MADV_HUGEPAGE);
#endif
}

}  // namespace shampoo
