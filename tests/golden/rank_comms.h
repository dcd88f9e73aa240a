// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <memory>

namespace shampoo::golden {

// Communicators of ranks that are threads of this process. Each program links one definition of MakeRankComms(), which
// selects the transport. For example, rank_comms_threads.cc uses callbacks of the tests, and rank_comms_nccl.cc uses
// the NCCL adapter with a stand-in for NCCL.
class RankComms {
 public:
  virtual ~RankComms() = default;
  virtual shampoo_comm_ops OpsOf(int rank) = 0;
};

std::unique_ptr<RankComms> MakeRankComms(int world);

}  // namespace shampoo::golden
