// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Communicators that exchange data in device memory. The programs that replay recorded runs use them for ranks that are
// threads and share one device.
#include "tests/cuda/tools/staged_comm.h"
#include "tests/golden/rank_comms.h"

namespace shampoo::golden {
namespace {

class CudaComms : public RankComms {
 public:
  explicit CudaComms(int world) : comm_(world) {}
  shampoo_comm_ops OpsOf(int rank) override { return comm_.OpsOf(rank, false, true); }

 private:
  shampoo_test::StagedComm comm_;
};

}  // namespace

std::unique_ptr<RankComms> MakeRankComms(int world) { return std::make_unique<CudaComms>(world); }

}  // namespace shampoo::golden
