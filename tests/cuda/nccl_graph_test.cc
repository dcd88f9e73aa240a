// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests steps that exchange data over NCCL and are captured into a CUDA graph. tools/stream_nccl.cc replaces NCCL.
#include <shampoo/shampoo_nccl.h>

#include "core/comm/nccl.h"
#include "tests/cuda/tools/graph.h"
#include "tests/cuda/tools/stream_nccl.h"
#include "tests/cuda/tools/stream_rank.h"

namespace shampoo_test {
namespace {

struct Adapter {
  // If true, shampoo_nccl_ops() makes the callbacks. If false, NcclOps() makes them (see core/comm/nccl.h).
  bool is_header;
  bool is_non_blocking;
};

// A communicator of NCCL. Ops() returns its callbacks.
class NcclComm {
 public:
  NcclComm(int world, Adapter adapter) : is_header_(adapter.is_header) {
    REQUIRE(ncclCommInitRank(&comm_, world, {}, 0) == ncclSuccess);
    if (adapter.is_non_blocking) stream_nccl_set_non_blocking(comm_);
    if (!is_header_) REQUIRE(shampoo::NcclOps(comm_, SHAMPOO_STREAM_NCCL, &loaded_).ok());
  }
  ~NcclComm() {
    if (!is_header_) loaded_.release(loaded_.user);
    ncclCommDestroy(comm_);
  }
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  shampoo_comm_ops Ops(bool has_all_to_all) const {
    shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
    if (is_header_) {
      REQUIRE(shampoo_nccl_ops(comm_, &ops) == ncclSuccess);
    } else {
      ops.user = loaded_.user;
      ops.rank = loaded_.rank;
      ops.world = loaded_.world;
      ops.device_type = loaded_.takes_device_memory ? SHAMPOO_CUDA : SHAMPOO_CPU;
      ops.all_gather = loaded_.all_gather;
      ops.all_to_all = loaded_.all_to_all;
      ops.async_error = loaded_.async_error;
    }
    if (!has_all_to_all) ops.all_to_all = nullptr;  // as with NCCL before 2.7
    return ops;
  }

 private:
  bool is_header_;
  ncclComm_t comm_ = nullptr;
  shampoo::CommOps loaded_;
};

constexpr RankKind kKinds[] = {{"local", 2, 1, true},         {"local", 1, 2, true},       {"local", 2, 2, true, "64"},
                               {"gather", 1, 2, true},        {"gather", 1, 2, false},     {"gather", 2, 2, true},
                               {"gather", 2, 2, false, "64"}, {"gather", 2, 2, true, "64"}};

TEST_CASE("a step over NCCL can be captured, and replays are bit-identical to steps without a graph") {
  for (const RankKind& kind : kKinds) {
    for (const Adapter adapter :
         {Adapter{true, false}, Adapter{true, true}, Adapter{false, false}, Adapter{false, true}}) {
      INFO(NameOf(kind), ", header ", adapter.is_header, ", non-blocking ", adapter.is_non_blocking);
      const StageWithStream stream;
      StreamRank<> reference(kind, {}, stream);  // makes the same exchanges without NCCL
      StreamRank<NcclComm> plain(kind, {}, stream, adapter);
      StreamRank<NcclComm> captured(kind, {}, stream, adapter);
      const int groups = stream_nccl_groups();
      const auto graph = StepAndReplay(&captured.model, [&](uint64_t t) {
        reference.model.Step(t);
        plain.model.Step(t);
      });
      CHECK(BitsOf(plain.model) == BitsOf(reference.model));
      CheckReplayed(captured.model, plain.model, 9);
      CHECK((stream_nccl_groups() > groups) == (kind.has_all_to_all && kind.gathers()));
    }
  }
}

}  // namespace
}  // namespace shampoo_test
