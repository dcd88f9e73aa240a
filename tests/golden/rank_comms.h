// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <memory>

namespace shampoo::golden {

// Communicators of ranks that are threads of this process. What carries them is chosen by the source file that a
// program is linked with: callbacks of the tests, or the NCCL adapter over a stand-in for NCCL.
class RankComms {
 public:
  virtual ~RankComms() = default;
  virtual shampoo_comm_ops OpsOf(int rank) = 0;
};

std::unique_ptr<RankComms> MakeRankComms(int world);

}  // namespace shampoo::golden
