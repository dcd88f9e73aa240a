// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that a shard rank without elements of any parameter takes part in steps, captures and replays.
#include <cstring>

#include "core/comm/segment_header.h"
#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

constexpr size_t kGroups = 1;
constexpr size_t kParams = 4;

// A communicator of shard rank 1. Its all-gather only enqueues copies in the stream, and its all-to-all does nothing.
// Shard rank 0 does not exist: the all-gather acts as if rank 0 sent a copy of the data of rank 1. An agreement is the
// exchange in which shard ranks agree on a step. After the first SetStep(), the all-gather acts in each agreement as if
// rank 0 sent the values of the last SetStep().
class EmptyRankComm {
 public:
  EmptyRankComm() : sent_(static_cast<size_t>(kBytes - kHeader)) {}

  shampoo_comm_ops Ops() {
    shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
    ops.user = this;
    ops.rank = 1;
    ops.world = 2;
    ops.device_type = SHAMPOO_CUDA;
    ops.all_gather = Gather;
    ops.all_to_all = [](void*, const void*, const size_t*, void*, const size_t*, void*) -> int32_t { return 0; };
    return ops;
  }
  // Sets the step of rank 0, and whether rank 0 has gradients of the parameters. Later replays use them, too.
  void SetStep(int64_t step, shampoo::GradientOnShard gradient = shampoo::kGradient) {
    std::vector<char> sent(sent_.bytes(), static_cast<char>(gradient));
    std::memcpy(sent.data(), &step, sizeof step);
    MustCuda(cudaMemcpy(sent_.get(), sent.data(), sent.size(), cudaMemcpyHostToDevice));
    steps_ = true;
  }

 private:
  static constexpr int64_t kHeader = sizeof(shampoo::ShardHeader);
  static constexpr int64_t kBytes = kHeader + static_cast<int64_t>(kGroups * sizeof(int64_t) + kParams);

  static int32_t Gather(void* user, const void* send, void* recv, size_t bytes, void* stream) {
    const auto* const own = static_cast<const EmptyRankComm*>(user);
    const auto copy = [stream](char* to, const void* from, size_t count) -> int32_t {
      if (to == from) return 0;
      return cudaMemcpyAsync(to, from, count, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream));
    };
    auto* const segments = static_cast<char*>(recv);
    int32_t error = copy(segments + bytes, send, bytes);
    if (error == 0) error = copy(segments, segments + bytes, bytes);
    const bool is_agreement = own->steps_ && bytes == static_cast<size_t>(shampoo::ShardSegmentBytes(kGroups, kParams));
    if (error != 0 || !is_agreement) return error;
    return copy(segments + kHeader, own->sent_.get(), own->sent_.bytes());
  }

  DeviceBytes sent_;  // the data after the header in the segment that rank 0 sends in an agreement
  bool steps_ = false;
};

// Returns the specification of a model whose parameters have one element each. Rank 0 holds all elements.
ModelSpec SpecOfEmptyRank(const Keys& keys, const shampoo_comm_ops* ops) {
  ModelSpec spec = SpecOfRanks(keys + Keys("refresh_growth=0"));
  spec.params = {{{1}}, {{1}}, {{1, 1}}, {{1}}};
  spec.shard_ops = ops;
  return spec;
}

TEST_CASE("a rank without elements can capture steps, and replays advance its step counter") {
  for (const Keys& keys : Combinations("shard_mode=local|gather status_lag=0|1")) {
    CAPTURE(keys);
    const StageWithStream stream;
    EmptyRankComm comm;
    const shampoo_comm_ops ops = comm.Ops();
    Model model(SpecOfEmptyRank(keys + Keys("precondition_frequency=8"), &ops), stream);
    for (size_t p = 0; p < kParams; ++p) REQUIRE(model.elements(p) == 0);
    for (const int64_t t : {1, 2}) {
      comm.SetStep(t);
      model.Step();
      model.Wait();
    }
    // The host has not read the report of step 2 yet, so it does not know that rank 0 had gradients in this step.
    // Therefore the capture fails.
    if (keys == Keys("shard_mode=gather status_lag=1")) {
      const Graph rejected(&model, SHAMPOO_E_STATE, "shampoo_optimizer_status");
    }
    model.MustSucceed();
    CHECK(model.State("group.0/step")[0] == 2);
    {
      const Graph graph(&model);
      for (const int64_t t : {3, 4}) {
        comm.SetStep(t);
        graph.Launch();
        model.Wait();
        CHECK(model.State("group.0/step")[0] == static_cast<double>(t));
      }
    }
    comm.SetStep(5);
    model.Step();
    model.MustSucceed();
    CHECK(model.State("group.0/step")[0] == 5);
    CHECK(model.Stat("steps") == 5);
    CHECK(model.Stat("step.0") == 5);
  }
}

// Roots are due at steps 4 and 8. No rank has a gradient in step 4, so step 4 computes no roots and can be a replay.
TEST_CASE("a rank without elements counts replays without gradients, but rejects a replay that needs new roots") {
  const Keys keys = "shard_mode=gather precondition_frequency=4 count_empty_steps=true";
  for (const Keys& lag : kLags) {
    CAPTURE(lag);
    const StageWithStream stream;
    EmptyRankComm comm;
    const shampoo_comm_ops ops = comm.Ops();
    Model model(SpecOfEmptyRank(keys + lag, &ops), stream);
    for (size_t p = 0; p < kParams; ++p) REQUIRE(model.elements(p) == 0);
    for (const int64_t t : {1, 2, 3}) {
      comm.SetStep(t, shampoo::kNoGradient);
      model.Step();
      model.Wait();
    }
    model.MustSucceed();
    const Graph graph(&model);
    for (const int64_t t : {4, 5, 6, 7}) {
      comm.SetStep(t, t == 7 ? shampoo::kGradient : shampoo::kNoGradient);
      graph.Launch();
      model.Wait();
      CHECK(model.State("group.0/step")[0] == static_cast<double>(t));
    }
    model.MustSucceed();
    comm.SetStep(8);
    const Graph rejected(&model, SHAMPOO_E_STATE, "inverse roots of group 0 are due at step 8");
    graph.Launch();
    CheckError(model.Status(), SHAMPOO_E_STATE, "a captured step was replayed as step 8 of group 0");
    CHECK(model.State("group.0/step")[0] == 7);
    model.Step();
    model.MustSucceed();
    CHECK(model.Stat("step.0") == 8);
  }
}

}  // namespace
}  // namespace shampoo_test
