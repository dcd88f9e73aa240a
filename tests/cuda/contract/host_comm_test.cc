// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks whose communicators take host memory. The results of their steps are bit-identical to the results with
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
constexpr HostComms kAllOnHost{true, true};

struct HostKind {
  const char* mode;  // shard_mode
  int copies, shards;
  bool has_all_to_all;
  HostComms on_host;
};
constexpr HostKind kHostKinds[] = {{"local", 3, 1, false, kReplicasOnHost},  {"local", 1, 3, false, kShardsOnHost},
                                   {"local", 2, 2, false, kAllOnHost},       {"local", 2, 2, false, kReplicasOnHost},
                                   {"local", 2, 2, false, kShardsOnHost},    {"gather", 1, 3, false, kShardsOnHost},
                                   {"gather", 1, 3, true, kShardsOnHost},    {"gather", 2, 2, false, kAllOnHost},
                                   {"gather", 2, 2, true, kAllOnHost},       {"gather", 2, 2, true, kReplicasOnHost},
                                   {"gather", 2, 2, false, kReplicasOnHost}, {"gather", 2, 2, true, kShardsOnHost}};

std::string NameOf(const HostKind& kind) {
  return std::string(kind.mode) + " " + std::to_string(kind.copies) + "x" + std::to_string(kind.shards) +
         (kind.has_all_to_all ? " all-to-all" : "") + (kind.on_host.of_replicas ? " replicas" : "") +
         (kind.on_host.of_shards ? " shards" : "");
}

ModelSpec SpecOfHostKind(const HostKind& kind, const Keys& more = {}) {
  return SpecOfRanks(Keys{{"shard_mode", kind.mode}} + more);
}

// Returns whether all communicators of the kind take host memory.
bool AreAllOnHost(const HostKind& kind) {
  return (kind.on_host.of_replicas || kind.copies == 1) && (kind.on_host.of_shards || kind.shards == 1);
}

struct HostRanks : DeviceRanks {
  HostRanks(const HostKind& kind, const ModelSpec& spec, const shampoo_allocator* allocators = nullptr)
      : DeviceRanks(spec, kind.copies, kind.shards, allocators, kind.has_all_to_all, kind.on_host) {}
};

// With buckets, each exchange is divided.
const std::vector<Keys> kHostCommOptions = {
    {{"status_lag", "1"}},
    {{"status_lag", "0"}, {"comm_bucket_bytes", "64"}},
    {{"communicate", "params"}, {"root_async", "1"}, {"track_times", "true"}},
};

TEST_CASE("ranks make bit-identical steps over communicators of host memory and over those of device memory" *
          doctest::test_suite("long")) {
  for (const HostKind& kind : kHostKinds) {
    for (const Keys& options : kHostCommOptions) {
      CAPTURE(NameOf(kind));
      CAPTURE(options[0].first + " " + options[0].second);
      const Stage stage;
      ModelSpec spec = SpecOfHostKind(kind, options);
      spec.params.push_back({{70, 66}});  // several tiles
      HostRanks on_host(kind, spec);
      DeviceRanks on_device(spec, kind.copies, kind.shards, nullptr, kind.has_all_to_all);
      for (DeviceRanks* ranks : {static_cast<DeviceRanks*>(&on_host), &on_device}) {
        ranks->FillParams(1);
        ranks->Train(1, 5);
        ranks->Status();
        REQUIRE(ranks->DifferencesFrom(SHAMPOO_OK) == "");
      }
      for (int rank = 0; rank < on_host.world(); ++rank) {
        CAPTURE(rank);
        CHECK(BitsOf(on_host[rank]) == BitsOf(on_device[rank]));
        CHECK(on_host[rank].Stat("steps") == 5);
      }
    }
  }
}

TEST_CASE("a step that one rank rejects is an error on all ranks, also over communicators of host memory") {
  for (const HostKind& kind : kHostKinds) {
    for (const Keys& reporting : kReporting) {
      CAPTURE(NameOf(kind));
      CAPTURE(reporting[0].second);
      const Stage stage;
      HostRanks ranks(kind, SpecOfHostKind(kind, reporting));
      MakeTwoSteps(&ranks);
      // Spoils the gradient on all copies of a shard, because only the copy that owns a block checks its gradient.
      const int shard = kind.shards > 1 ? 1 : 0;
      for (int copy = 0; copy < kind.copies; ++copy) ranks[copy * kind.shards + shard].SpoilGradient(3, 2, NAN);
      CheckAllReject(&ranks, reporting, SHAMPOO_E_NUMERIC, {"the gradient of parameter \"p3\"", "has NaN"});
      CheckTheyContinue(&ranks);
      // The hosts also exchange step counters, and report a difference.
      ranks[ranks.world() - 1].SetState("group.0/step", {8});
      ranks.Step();
      if (ReportsLate(reporting)) ranks.Step();
      CHECK(ranks.DifferencesFrom(SHAMPOO_E_STATE, {"rank ", " is at step "}) == "");
    }
  }
}

TEST_CASE("a step over a communicator of host memory is not captured, and the capture and the ranks continue") {
  for (const HostKind& kind : kHostKinds) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    HostRanks ranks(kind, SpecOfHostKind(kind, {{"refresh_growth", "0"}, {"precondition_frequency", "5"}}));
    ranks.FillParams(1);
    ranks.Train(1, 2);
    ranks.Status();
    REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
    const std::string name = kind.on_host.of_shards ? "shard_comm" : "replica_comm";
    for (int rank = 0; rank < ranks.world(); ++rank) {
      // The graph has a memset, which the caller captures after the step.
      const DeviceBytes four(4);
      const Graph graph(&ranks[rank], SHAMPOO_E_STATE, "the stream is captured, and " + name + " takes host memory",
                        four.get());
      graph.Launch();
      ranks[rank].Wait();
    }
    for (int rank = 0; rank < ranks.world(); ++rank) CHECK(ranks[rank].Stat("steps") == 2);
    ranks.Train(3, 4);
    ranks.Status();
    CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
    for (int rank = 0; rank < ranks.world(); ++rank) CHECK(ranks[rank].Stat("steps") == 4);
  }
}

// Returns the number of collectives of all ranks so far that took host memory.
int64_t CollectivesOnHost(HostRanks* ranks, const HostKind& kind) {
  int64_t calls = 0;
  for (int rank = 0; rank < ranks->world(); ++rank) {
    if (kind.on_host.of_shards) calls += ranks->CommOf(rank, true).calls(ranks->shard_ops(rank)->rank);
    if (kind.on_host.of_replicas) calls += ranks->CommOf(rank, false).calls(ranks->replica_ops(rank)->rank);
  }
  return calls;
}

TEST_CASE("over communicators of host memory a step copies once to the host for each exchange, and allocates nothing" *
          NeedsFake()) {
  for (const HostKind& kind : kHostKinds) {
    if (!AreAllOnHost(kind)) continue;  // a StagedComm also copies to the host, which would change the counts
    for (const char* bucket : {"0", "64"}) {
      CAPTURE(NameOf(kind));
      CAPTURE(std::string(bucket));
      const Stage stage(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
      HostRanks ranks(kind, SpecOfHostKind(kind, {{"comm_bucket_bytes", bucket}}));
      ranks.FillParams(1);
      for (uint64_t t = 1; t <= 4; ++t) {
        CAPTURE(t);
        ranks.FillGradients(t);
        const int64_t before = CollectivesOnHost(&ranks, kind);
        fake_cuda_mark();
        ranks.Step();
        CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
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

TEST_CASE(
    "create allocates the planned device memory, and none for error messages if all communicators take host memory") {
  for (const HostKind& kind : kHostKinds) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    const int world = kind.copies * kind.shards;
    std::vector<Sizes> sizes(static_cast<size_t>(world));
    std::vector<shampoo_allocator> allocators;
    for (Sizes& of_rank : sizes) allocators.push_back(of_rank.allocator());
    HostRanks ranks(kind, SpecOfHostKind(kind, {{"status_lag", "0"}}), allocators.data());
    const size_t pieces = AreAllOnHost(kind) ? 3 : 4;  // workspace, state, exchanges, and memory for error messages
    const char* const what =
        kind.mode == std::string("gather") && !kind.has_all_to_all ? "workspace.all_gather" : "workspace";
    for (int rank = 0; rank < world; ++rank) {
      const std::vector<size_t>& all = sizes[static_cast<size_t>(rank)].all;
      REQUIRE(all.size() == pieces);
      int64_t planned = 0;
      Must(shampoo_plan_bytes(ranks[rank].plan.get(), -1, what, &planned));
      CHECK(all[0] + all[2] <= static_cast<size_t>(planned));
    }
    MakeTwoSteps(&ranks);
    for (int rank = 0; rank < world; ++rank) ranks[rank].SpoilGradient(3, 2, NAN);
    ranks.Step();
    CHECK(ranks.DifferencesFrom(SHAMPOO_E_NUMERIC) == "");
    for (const Sizes& of_rank : sizes) CHECK(of_rank.all.size() == pieces);
  }
}

// Checks the size of the pinned memory. In the tests above, the fake of CUDA detects accesses beyond the end of this
// memory.
TEST_CASE("if pinned memory for a communicator of host memory cannot be allocated, all ranks report its size" *
          NeedsFake()) {
  struct Case {
    HostKind kind;
    int64_t bytes;
  };
  // A segment of replicas has a header of 64 bytes and the update of the rank's block, padded to 64 bytes. In
  // the exchange in which shards agree on a step, a segment has 64 bytes.
  for (const Case& one :
       {Case{{"local", 2, 1, false, kReplicasOnHost}, 2 * 64 * 2}, Case{{"local", 1, 2, false, kShardsOnHost}, 128},
        Case{{"local", 2, 2, false, kAllOnHost}, 2 * 64 * 2}}) {
    CAPTURE(NameOf(one.kind));
    const Stage stage;
    ModelSpec spec = SpecOfHostKind(one.kind);
    spec.params = {{{4}}, {{4}}};
    HostRanks ranks(one.kind, spec);
    ranks.OnEvery([&](int rank, Model* model) {
      shampoo_optimizer_destroy(std::exchange(model->optimizer, nullptr));
      // Fails the second call of cudaHostAlloc, because the root solver makes the first one.
      if (rank == 1) fake_cuda_fail_here("cudaHostAlloc", 2, cudaErrorMemoryAllocation);
      return ranks.CreateAgain(rank, model->plan.get());
    });
    CHECK(ranks.DifferencesFrom(
              SHAMPOO_E_NOMEM,
              {"rank 1: ", std::to_string(one.bytes) + " bytes of pinned memory for a communicator that takes "
                                                       "host memory: cudaHostAlloc(...) failed"}) == "");
    CHECK(fake_cuda_cancel_failures() == 0);
  }
}

}  // namespace
}  // namespace shampoo_test
