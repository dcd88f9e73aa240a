// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests BlockGather. In each pass, one round (core/comm/round.h) collects whole blocks at their owners, and another
// round delivers the updates to the shard ranks.
#include <algorithm>
#include <atomic>

#include "core/plan/block_place.h"
#include "core/rules/update.h"
#include "core/step/block_gather.h"
#include "tests/core/stepping_ranks.h"

namespace shampoo {
namespace {

using FlagsOfParams = std::vector<char>;

// A shard rank that makes no step. It only exchanges gradients, parameters and updates, in two passes (GatherPass).
struct GatheringShard : StepFixture {
  explicit GatheringShard(const std::shared_ptr<Communicator>& comm)
      : StepFixture(ShardRank::SetupOf(*comm, kAllStates + kGather + "comm_bucket_bytes=1")) {
    comm->SetRankName("shard rank");
    Ok(BlockGather::Create(plan(), comm, comm->TakeOptimizerId(), {}, backend().get(), &gather));
    arrived.resize(static_cast<size_t>(plan().gather_bytes().held));
    for (size_t p = 0; p < params.size(); ++p) {
      for (size_t i = 0; i < params[p].size(); ++i) {
        gradients[p][i] = GradientAt(p, plan().params[p].desc.flat_offset + static_cast<int64_t>(i));
        params[p][i] = -gradients[p][i];
      }
    }
  }
  // Returns the gradient of the element at this position of a parameter.
  static float GradientAt(size_t param, int64_t position) {
    return static_cast<float>(100 * param + 1) + static_cast<float>(position);
  }

  Status Collect(size_t pass, const FlagsOfParams& takes_part = {1, 1}) {
    return gather->Collect(pass, inputs().buffers.all(), takes_part);
  }
  Status Deliver(size_t pass, const FlagsOfParams& update_skipped) {
    return gather->Deliver(pass, FlagsOfParams{1, 1}, update_skipped, arrived.data());
  }
  FlagsOfParams SkippedOfBlocks(char skipped) const { return FlagsOfParams(plan().blocks.size(), skipped); }
  // Returns the gradients of the elements of a block, in order. If only_held, leaves out elements on other ranks.
  std::vector<float> GradientsOf(int64_t index, bool only_held) const {
    const Block& block = plan().block(index);
    const ParamDesc& desc = plan().param(block).desc;
    const BlockPlace place = BlockPlace::Of(desc, block);
    std::vector<float> expected;
    ForEachRunOf(place, {0, place.elements()}, [&](int64_t, int64_t first, int64_t count) {
      for (int64_t at = first; at < first + count; ++at) {
        const bool is_held = at >= desc.flat_offset && at < desc.flat_offset + desc.flat_count;
        if (is_held || !only_held) expected.push_back(GradientAt(static_cast<size_t>(block.param), at));
      }
    });
    return expected;
  }
  float* GradientIn(const WholeBlock& whole) const { return reinterpret_cast<float*>(gather->GradientOf(whole)); }

  std::unique_ptr<BlockGather> gather;
  std::vector<char> arrived;
};

using GatheringShards = RanksOnThreads<GatheringShard>;

TEST_CASE(
    "a pass collects whole blocks at their owners, and delivers to each rank the updates of the elements that it "
    "holds") {
  for (const bool with_all_to_all : {false, true}) {
    CAPTURE(with_all_to_all);
    GatheringShards shards(ThreadWorld{3, with_all_to_all});
    REQUIRE(shards[0].gather->pass_count() == 2);
    std::atomic<size_t> collected = 0;
    CheckAllOk(shards.Run([&](int, GatheringShard& rank) {
      for (size_t pass = 0; pass < 2; ++pass) {
        SHAMPOO_RETURN_IF_ERROR(rank.Collect(pass));
        for (const WholeBlock& whole : rank.gather->PassAt(pass).whole) {
          const auto* const param = reinterpret_cast<const float*>(rank.gather->ParamOf(whole));
          const std::vector<float> expected = rank.GradientsOf(whole.block, false);
          collected += expected.size();
          for (size_t i = 0; i < expected.size(); ++i) {
            CHECK(rank.GradientIn(whole)[i] == expected[i]);
            CHECK(param[i] == -expected[i]);
            rank.GradientIn(whole)[i] *= 2;  // the update replaces the gradient
          }
        }
        SHAMPOO_RETURN_IF_ERROR(rank.Deliver(pass, rank.SkippedOfBlocks(0)));
        for (const ShardSlice& slice : rank.gather->PassAt(pass).held) {
          std::vector<float> expected = rank.GradientsOf(slice.block, true);
          for (float& update : expected) update *= 2;
          const auto* const updates =
              reinterpret_cast<const float*>(&rank.arrived[static_cast<size_t>(slice.update_at)]);
          CHECK(std::vector<float>(updates, updates + slice.elements) == expected);
        }
      }
      return Status();
    }));
    CHECK(collected == 24 + 5);  // all elements of the parameters (kSteppedShapes)
  }
}

TEST_CASE("blocks of parameters that take no part in a step are not collected") {
  GatheringShards shards(2);
  CheckAllOk(shards.Run([&](int, GatheringShard& rank) {
    for (size_t pass = 0; pass < 2; ++pass) {
      SHAMPOO_RETURN_IF_ERROR(rank.Collect(pass));
      // Overwrites the first element of each block with a value that no gradient has.
      for (const WholeBlock& whole : rank.gather->PassAt(pass).whole) *rank.GradientIn(whole) = -5;
      SHAMPOO_RETURN_IF_ERROR(rank.Collect(pass, {0, 1}));
      for (const WholeBlock& whole : rank.gather->PassAt(pass).whole) {
        const bool takes_part = rank.plan().block(whole.block).param == 1;
        CHECK(*rank.GradientIn(whole) == (takes_part ? rank.GradientsOf(whole.block, false)[0] : -5));
      }
    }
    return Status();
  }));
}

TEST_CASE("if the owner of a block skips the update, the mark of a skipped update is delivered instead") {
  GatheringShards shards(2);
  CheckAllOk(shards.Run([&](int, GatheringShard& rank) {
    SHAMPOO_RETURN_IF_ERROR(rank.Collect(0));
    SHAMPOO_RETURN_IF_ERROR(rank.Deliver(0, rank.SkippedOfBlocks(1)));
    for (const ShardSlice& slice : rank.gather->PassAt(0).held) {
      const auto first = rank.arrived.begin() + slice.update_at;
      CHECK(std::count(first, first + sizeof(float), static_cast<char>(kSkippedMark)) == sizeof(float));
    }
    return Status();
  }));
}

TEST_CASE("if a rank joins a round only to report a failure, the communicator fails on all ranks") {
  enum class In { kCollect, kJoinedCollect, kDeliver };
  for (const bool with_all_to_all : {false, true}) {
    for (const In round : {In::kCollect, In::kJoinedCollect, In::kDeliver}) {
      GatheringShards shards(ThreadWorld{3, with_all_to_all});
      const Status failure = Numeric("its gradient has NaN");
      const auto statuses = shards.Run([&](int number, GatheringShard& rank) {
        BlockGather& gather = *rank.gather;
        const bool reports = number == 1;
        if (round == In::kDeliver) {
          SHAMPOO_RETURN_IF_ERROR(rank.Collect(1));
          if (!reports) return rank.Deliver(1, rank.SkippedOfBlocks(0));
          gather.ReportInDeliver(1, failure, rank.arrived.data());
        } else {
          if (!reports) return round == In::kCollect ? rank.Collect(1) : gather.JoinCollect(1);
          gather.ReportInCollect(1, failure);
        }
        return Status();
      });
      CheckOk(statuses[1]);  // rank 1 knows its own error, so ReportInCollect and ReportInDeliver return none
      for (const size_t rank : {size_t{0}, size_t{2}}) {
        CheckError(statuses[rank], Code::kComm, "shard rank 1: its gradient has NaN");
      }
      for (int rank = 0; rank < 3; ++rank) CHECK(shards.threads.comm(rank)->failed());
    }
  }
}

TEST_CASE("the update of a collected block replaces its gradient, and SetCopied sets whether the step writes a copy") {
  const ThreadRanks threads(2);
  const GatheringShard rank(threads.comm(0));
  REQUIRE(!rank.gather->PassAt(0).whole.empty());
  const WholeBlock& whole = rank.gather->PassAt(0).whole[0];
  const auto block = static_cast<size_t>(whole.block);
  const Buffers& buffers = rank.gather->BuffersOf(block);
  CHECK(buffers.param == rank.gather->ParamOf(whole));
  CHECK(buffers.grad == rank.gather->GradientOf(whole));
  CHECK(buffers.out == buffers.grad);
  for (const bool is_copied : {true, false}) {
    rank.gather->SetCopied(block, is_copied);
    CHECK(buffers.copy == (is_copied ? buffers.out : nullptr));
  }
}

}  // namespace
}  // namespace shampoo
