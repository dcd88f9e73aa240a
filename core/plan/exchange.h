// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/settings.h"
#include "core/plan/block.h"
#include "core/plan/owners.h"

namespace shampoo {

// At the start of every rank's segment of every bucket: what the ranks tell each other beside updates.
inline constexpr int64_t kSegmentHeaderBytes = 64;

// The dtype in which a block's update travels.
Dtype ExchangeDtype(const Settings& optimizer, const Block& block);

// Deals the blocks of each rank, in plan order, out to buckets that are exchanged one after another, and gives each its
// place within its owner's segment. bucket_bytes: what a bucket may take in all ranks' memory, unless a block alone
// takes more; 0: there is one bucket. Returns the bytes of a segment of each bucket, the same for every rank, header
// and padding included; none for a world of 1.
std::vector<int64_t> PlanExchange(const Ownership& ownership, int world, int64_t bucket_bytes,
                                  std::vector<Block>* blocks);

}  // namespace shampoo
