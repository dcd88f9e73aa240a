// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/distributed/thread_comm.h"
#include "tests/golden/rank_comms.h"

namespace shampoo::golden {
namespace {

class ThreadComms : public RankComms {
 public:
  explicit ThreadComms(int world) : comm_(world) {}
  shampoo_comm_ops OpsOf(int rank) override { return comm_.OpsOf(rank); }

 private:
  shampoo_test::ThreadComm comm_;
};

}  // namespace

std::unique_ptr<RankComms> MakeRankComms(int world) { return std::make_unique<ThreadComms>(world); }

}  // namespace shampoo::golden
