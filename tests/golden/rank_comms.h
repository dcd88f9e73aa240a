// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <memory>

namespace shampoo::golden {

// Communicators of ranks that are threads of this process. The source file that a program links selects the transport:
// callbacks of the tests, or the NCCL adapter with a stand-in for NCCL.
class RankComms {
 public:
  virtual ~RankComms() = default;
  virtual shampoo_comm_ops OpsOf(int rank) = 0;
};

std::unique_ptr<RankComms> MakeRankComms(int world);

}  // namespace shampoo::golden
