// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <nccl.h>
#include <shampoo/shampoo_nccl.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/golden/rank_comms.h"

namespace shampoo::golden {
namespace {

void CheckNccl(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(result));
}

class NcclComms : public RankComms {
 public:
  explicit NcclComms(int world) : comms_(static_cast<size_t>(world)) {
    CheckNccl(ncclCommInitAll(comms_.data(), world, nullptr), "ncclCommInitAll");
  }
  ~NcclComms() override {
    for (const ncclComm_t comm : comms_) ncclCommDestroy(comm);
  }
  shampoo_comm_ops OpsOf(int rank) override {
    shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
    CheckNccl(shampoo_nccl_ops(comms_[static_cast<size_t>(rank)], &ops), "shampoo_nccl_ops");
    ops.device_type = SHAMPOO_CPU;  // the tests link a stand-in for NCCL, which uses host memory
    return ops;
  }

 private:
  std::vector<ncclComm_t> comms_;
};

}  // namespace

std::unique_ptr<RankComms> MakeRankComms(int world) { return std::make_unique<NcclComms>(world); }

}  // namespace shampoo::golden
