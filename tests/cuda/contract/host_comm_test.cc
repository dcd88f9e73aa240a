// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests ranks whose communicators take host memory. The results of their steps are bit-identical to the results with
// communicators that take device memory.
#include <algorithm>
#include <string>

#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/contract/sizes.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

constexpr HostComms kReplicasOnHost{true, false};
constexpr HostComms kShardsOnHost{false, true};

constexpr RankKind kHostKinds[] = {
    {"local", 3, 1, false, "0", kReplicasOnHost},  {"local", 1, 3, false, "0", kShardsOnHost},
    {"local", 2, 2, false, "0", kAllOnHost},       {"local", 2, 2, false, "0", kReplicasOnHost},
    {"local", 2, 2, false, "0", kShardsOnHost},    {"gather", 1, 3, false, "0", kShardsOnHost},
    {"gather", 1, 3, true, "0", kShardsOnHost},    {"gather", 2, 2, false, "0", kAllOnHost},
    {"gather", 2, 2, true, "0", kAllOnHost},       {"gather", 2, 2, true, "0", kReplicasOnHost},
    {"gather", 2, 2, false, "0", kReplicasOnHost}, {"gather", 2, 2, true, "0", kShardsOnHost}};

// Returns whether all communicators of the kind take host memory.
bool AreAllOnHost(const RankKind& kind) {
  return (kind.on_host.of_replicas || kind.copies == 1) && (kind.on_host.of_shards || kind.shards == 1);
}

// With comm_bucket_bytes, exchanges of updates and of gathered blocks are divided into several smaller exchanges.
const std::vector<Keys> kHostCommOptions = {
    {{"status_lag", "1"}},
    {{"status_lag", "0"}, {"comm_bucket_bytes", "64"}},
    {{"communicate", "params"}, {"root_async", "1"}, {"track_times", "true"}},
};

TEST_CASE("ranks make bit-identical steps over communicators of host memory and over those of device memory" *
          doctest::test_suite("long")) {
  for (const RankKind& kind : kHostKinds) {
    for (const Keys& options : kHostCommOptions) {
      INFO(NameOf(kind), " ", options);
      const Stage stage;
      ModelSpec spec = SpecOfRanks(options);
      spec.params.push_back({{70, 66}});  // several tiles
      DeviceRanks on_host(spec, kind);
      RankKind other = kind;
      other.on_host = {};
      DeviceRanks on_device(spec, other);
      for (DeviceRanks* ranks : {&on_host, &on_device}) {
        ranks->Train(1, 5);
        ranks->MustSucceed();
      }
      CHECK(on_host.Bits() == on_device.Bits());
      for (const Model* model : on_host.models()) CHECK(model->Stat("steps") == 5);
    }
  }
}

TEST_CASE("a step that one rank rejects is an error on all ranks, also over communicators of host memory") {
  for (const RankKind& kind : kHostKinds) {
    for (const Keys& reporting : kReporting) {
      INFO(NameOf(kind), " ", reporting);
      const Stage stage;
      DeviceRanks ranks(SpecOfRanks(reporting), kind);
      MakeTwoSteps(&ranks);
      // Spoils the gradient of the same shard in all replicas: with shard_mode=gather, only the owner of a block checks
      // the gradient of the block, and the owner may be in any replica.
      const int shard = kind.shards > 1 ? 1 : 0;
      for (int copy = 0; copy < kind.copies; ++copy) ranks[copy * kind.shards + shard].SpoilGradient(3, 2, NAN);
      CheckAllReject(&ranks, reporting, SHAMPOO_E_NUMERIC, {"the gradient of parameter \"p3\"", "has NaN"});
      CheckTheyContinue(&ranks);
      // The ranks also exchange their step counters. If the counters differ, all ranks report an error.
      ranks[ranks.world() - 1].SetState("group.0/step", {8});
      ranks.Step();
      if (ReportsLate(reporting)) ranks.Step();
      CHECK(ranks.DifferencesFrom(SHAMPOO_E_STATE, {"rank ", " is at step "}) == "");
    }
  }
}

TEST_CASE(
    "a step over a communicator of host memory fails during a capture and leaves the capture and the ranks usable") {
  for (const RankKind& kind : kHostKinds) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    DeviceRanks ranks(SpecOfRanks("refresh_growth=0 precondition_frequency=5"), kind);
    ranks.Train(1, 2);
    ranks.MustSucceed();
    const std::string name = kind.on_host.of_shards ? "shard_comm" : "replica_comm";
    for (Model* model : ranks.models()) {
      // The test also captures a memset after the step that fails, so the graph consists of this memset.
      const DeviceBytes four(4);
      const Graph graph(model, SHAMPOO_E_STATE, "the stream is captured, and " + name + " takes host memory",
                        four.get());
      graph.Launch();
      model->Wait();
      CHECK(model->Stat("steps") == 2);
    }
    ranks.Train(3, 4);
    ranks.MustSucceed();
    for (const Model* model : ranks.models()) CHECK(model->Stat("steps") == 4);
  }
}

// Returns how many collectives with host memory all ranks together have called so far.
int64_t CollectivesOnHost(DeviceRanks* ranks, const RankKind& kind) {
  int64_t calls = 0;
  for (int rank = 0; rank < ranks->world(); ++rank) {
    if (kind.on_host.of_shards) calls += ranks->CommOf(rank, true).calls(ranks->shard_ops(rank)->rank);
    if (kind.on_host.of_replicas) calls += ranks->CommOf(rank, false).calls(ranks->replica_ops(rank)->rank);
  }
  return calls;
}

TEST_CASE("steps over communicators of host memory copy to the host at most once per exchange and allocate nothing" *
          NeedsFake()) {
  for (RankKind kind : kHostKinds) {
    if (!AreAllOnHost(kind)) continue;  // communicators of device memory also copy to the host (StagedComm)
    for (const char* bucket : {"0", "64"}) {
      kind.bucket = bucket;
      CAPTURE(NameOf(kind));
      const Stage stage(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
      DeviceRanks ranks(SpecOfRanks({}), kind);
      for (uint64_t t = 1; t <= 4; ++t) {
        CAPTURE(t);
        ranks.FillGradients(t);
        const int64_t before = CollectivesOnHost(&ranks, kind);
        fake_cuda_mark();
        ranks.CheckStep();
        const int64_t collectives = CollectivesOnHost(&ranks, kind) - before;
        CHECK(collectives >= ranks.world());
        CHECK(fake_cuda_count(FAKE_CUDA_COPIES_TO_HOST) <= collectives);  // a rank may have nothing to send
        CHECK(fake_cuda_count(FAKE_CUDA_COPIES_TO_HOST) > 0);
        CHECK(fake_cuda_calls("cudaStreamSynchronize") == collectives);
        CHECK(fake_cuda_count(FAKE_CUDA_ALLOCATIONS) == 0);
        CHECK(fake_cuda_count(FAKE_CUDA_PAGEABLE_COPIES) == 0);
      }
    }
  }
}

TEST_CASE("create allocates the planned memory, but none for error messages if all communicators take host memory") {
  for (const RankKind& kind : kHostKinds) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    SizesOfRanks sizes(kind);
    DeviceRanks ranks(SpecOfRanks("status_lag=0"), kind, sizes.allocators());
    const size_t pieces = AreAllOnHost(kind) ? 3 : 4;  // workspace, state, exchanges, and memory for error messages
    for (int rank = 0; rank < kind.world(); ++rank) {
      const std::vector<size_t>& all = sizes[rank].all;
      REQUIRE(all.size() == pieces);
      CHECK(all[0] + all[2] <= sizes.PlannedWorkspace(ranks[rank]));
    }
    MakeTwoSteps(&ranks);
    for (Model* model : ranks.models()) model->SpoilGradient(3, 2, NAN);
    ranks.CheckStep(SHAMPOO_E_NUMERIC);
    for (int rank = 0; rank < kind.world(); ++rank) CHECK(sizes[rank].all.size() == pieces);
  }
}

// Checks the size of the pinned memory. In the tests above, the fake CUDA detects accesses beyond the end of this
// memory.
TEST_CASE("if pinned memory for a communicator of host memory cannot be allocated, all ranks report its size" *
          NeedsFake()) {
  // The segment of a replica rank has a header of 64 bytes and the update of the rank's block, padded to 64 bytes.
  // In the exchange in which shard ranks agree on a step, a segment has 64 bytes. The pinned memory has room for the
  // segments of two ranks in the largest exchange over communicators of host memory.
  for (const auto& [kind, bytes] : {std::pair{RankKind{"local", 2, 1, false, "0", kReplicasOnHost}, 2 * 64 * 2},
                                    {{"local", 1, 2, false, "0", kShardsOnHost}, 128},
                                    {{"local", 2, 2, false, "0", kAllOnHost}, 2 * 64 * 2}}) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    ModelSpec spec = SpecOfRanks({});
    spec.params = {{{4}}, {{4}}};
    DeviceRanks ranks(spec, kind);
    ranks.OnEvery([&](int rank, Model* model) {
      shampoo_optimizer_destroy(std::exchange(model->optimizer, nullptr));
      // Makes the second call of cudaHostAlloc fail, because the root solver makes the first call.
      if (rank == 1) fake_cuda_fail_here("cudaHostAlloc", 2, cudaErrorMemoryAllocation);
      return ranks.CreateAgain(rank, model->plan.get());
    });
    CHECK(ranks.DifferencesFrom(
              SHAMPOO_E_NOMEM,
              {"rank 1: ", std::to_string(bytes) + " bytes of pinned memory for a communicator that takes "
                                                   "host memory: cudaHostAlloc(...) failed"}) == "");
    CHECK(fake_cuda_cancel_failures() == 0);
  }
}

}  // namespace
}  // namespace shampoo_test
