// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/backend/cuda/interface.h"
#include "core/base/round_up.h"
#include "core/plan/plan.h"

// Sizes of the two pinned buffers for async roots that are computed on the host (root_device=host). Matrices are copied
// between these buffers and the device.
namespace shampoo::cuda {

// The size of a buffer is the smallest of three numbers: kMaxHostRootBytes, the bytes of all roots of this rank, and
// the bytes of the largest root times kHostRootsPerThread times the number of threads. If the largest root is larger
// than this minimum, the buffer has the size of this root. kHostRootsPerThread and kMaxHostRootBytes were chosen
// without measurements.
inline constexpr int64_t kHostRootsPerThread = 2;
inline constexpr int64_t kMaxHostRootBytes = int64_t{64} << 20;
inline constexpr int64_t kHostRootHeaderBytes = 256;
static_assert(sizeof(HostRootHeader) <= kHostRootHeaderBytes);

// Returns the bytes of one root in a buffer: its header and its matrix.
inline int64_t HostRootBytes(const Block& block, int k) {
  const int64_t d = block.shape[k];
  return kHostRootHeaderBytes + RoundUp(d * d * static_cast<int64_t>(SizeOf(block.computation)), kHostRootHeaderBytes);
}

// Returns the bytes of each buffer; 0 if roots are not computed on the host, or if this rank owns no block with async
// roots.
inline int64_t HostRootBufferBytes(const PlanData& plan) {
  if (plan.groups[0].root_device != RootDevice::kHost) return 0;
  int64_t largest = 0;
  int64_t all = 0;
  for (const Block& block : plan.blocks) {
    if (!plan.Owns(block) || !block.snapshot_step.present()) continue;
    for (int k = 0; k < block.factor_count(); ++k) {
      if (!block.has_factor(k)) continue;
      largest = std::max(largest, HostRootBytes(block, k));
      all += HostRootBytes(block, k);
    }
  }
  return std::max(largest, std::min({all, kHostRootsPerThread * plan.threads * largest, kMaxHostRootBytes}));
}

}  // namespace shampoo::cuda
