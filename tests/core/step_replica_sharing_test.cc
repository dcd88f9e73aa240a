// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests how replicas exchange updates in several buckets, also if ranks fail or make different decisions about the
// step. step_rounds_test.cc tests how ranks compare the headers of their data and reject invalid numbers in a header.
#include <algorithm>

#include "tests/core/comm_test_util.h"
#include "tests/core/ranks_on_threads.h"
#include "tests/core/step_ranks.h"
#include "tests/core/thread_ranks.h"

namespace shampoo {
namespace {

using CallTexts = std::vector<std::string>;

const OptionKeys kTwoBuckets = "comm_bucket_bytes=128 use_merge_dims=false";

const std::vector<std::vector<int64_t>> kFourMatrices = {{8, 8}, {8, 8}, {2, 2}, {2, 2}};

TEST_CASE("without other replicas, a rank returns its own decision about a step and exchanges nothing") {
  char arrived = 0;
  SingleReplica single(&arrived);
  MirrorComm comm;
  const SharingReplica replica(comm.shared(), kTwoBuckets, kFourMatrices);
  RecordingShards shards;
  CheckOk(single.Share(0, {}, replica.context, &shards));
  CheckError(single.Share(0, {.status = Numeric("NaN")}, replica.context, &shards), Code::kNumeric, "NaN");
  single.ReportWithShards(0, Numeric("NaN"), &shards);
  CHECK(shards.calls.empty());
  CHECK(single.ArrivedFrom(1, 0) == &arrived);
  CheckOk(single.PriorFailure());
}

TEST_CASE("each rank receives the updates of the other ranks' blocks, bucket by bucket") {
  RanksOnThreads<SharingReplica> two(2, kTwoBuckets, kFourMatrices);
  REQUIRE(two[0].exchange->buckets() == 2);
  const PlanData& plan = two[0].plan();
  REQUIRE(plan.bucket_segment_bytes[0] != plan.bucket_segment_bytes[1]);
  const auto statuses = two.Run([&](int, SharingReplica& replica) {
    for (int64_t bucket = 0; bucket < 2; ++bucket) {
      for (const Block& block : replica.plan().blocks) {
        if (block.bucket != bucket || !replica.plan().Owns(block)) continue;
        char* const update = replica.exchange->UpdateOf(block);
        std::fill_n(update, block.elements * 4, static_cast<char>(block.param + 1));
      }
      SHAMPOO_RETURN_IF_ERROR(replica.Share(bucket));
      for (const Block& block : replica.plan().blocks) {
        if (block.bucket != bucket) continue;
        const char* const update = replica.exchange->UpdateOf(block);
        CHECK(std::count(update, update + block.elements * 4, static_cast<char>(block.param + 1)) ==
              block.elements * 4);
        CHECK(update ==
              replica.exchange->ArrivedFrom(bucket, block.owner) + block.exchange_offset - kSegmentHeaderBytes);
      }
    }
    return Status();
  });
  CheckAllOk(statuses);
}

TEST_CASE(
    "shard ranks agree on the result of the first bucket, and an error of another shard rank ends the step of this "
    "rank") {
  MirrorComm comm;
  SharingReplica replica(comm.shared(), kTwoBuckets, kFourMatrices);
  CheckOk(replica.Share(0));
  CheckOk(replica.Share(1));
  CHECK(comm.calls == 2);
  CHECK(replica.shards.calls == CallTexts{"agree again: "});
  replica.shards.agreed = Numeric("another shard failed");
  CheckError(replica.Share(0), Code::kNumeric, "another shard failed");
  CHECK(comm.calls == 4);  // the second bucket is exchanged, too
  CHECK(!comm.get()->failed());
  // The rank reports a failed collective of shard ranks to the other replicas in the exchange of the second bucket.
  replica.shards.agreed = CommFailed("an all_gather of shards failed");
  CheckError(replica.Share(0), Code::kComm, "an all_gather of shards failed");
  CHECK(comm.get()->failed());
}

TEST_CASE("ranks that reject or skip a step also join the second exchange of updates, if there is one") {
  for (const bool has_buckets : {false, true}) {
    MirrorComm comm;
    SharingReplica replica(comm.shared(), has_buckets ? kTwoBuckets : OptionKeys{}, kFourMatrices);
    REQUIRE(replica.exchange->buckets() == (has_buckets ? 2 : 1));
    CheckOk(replica.Share(0, {.status = {}, .skip_step = true}));
    CHECK(comm.calls == (has_buckets ? 2 : 1));
    CheckError(replica.Share(0, {.status = Numeric("NaN")}), Code::kNumeric, "rank 0: NaN");
    CHECK(comm.calls == (has_buckets ? 5 : 3));  // includes the exchange of error messages
    CHECK(replica.shards.calls == CallTexts{"agree again: ", "agree again: rank 0: NaN"});
  }
}

TEST_CASE("a rank whose first exchange failed reports this in the second exchange, also to ranks that skip the step") {
  for (const bool skip : {false, true}) {
    CAPTURE(skip);
    RanksOnThreads<SharingReplica> two(2, kTwoBuckets, kFourMatrices);
    two.threads.fails = [](int rank, int64_t call) { return rank == 1 && call == 1; };
    const auto statuses = two.Run([&](int, SharingReplica& replica) {
      Status first = replica.Share(0, {.status = {}, .skip_step = skip});
      return first.ok() && !skip ? replica.Share(1) : std::move(first);
    });
    CheckError(statuses[1], Code::kComm, "rank 1: all_gather of the communicator returned 2");
    CHECK(statuses[0].message() == statuses[1].message());
    for (size_t rank = 0; rank < 2; ++rank) {
      CheckError(two[rank].exchange->PriorFailure(), Code::kComm, "a collective or a CUDA call failed before");
    }
    CHECK(two[0].shards.calls == CallTexts{"agree again: "});
  }
}

TEST_CASE("a failure in the last exchange of a step is reported in the first exchange of the next step") {
  RanksOnThreads<SharingReplica> two(2, kTwoBuckets, kFourMatrices);
  two.threads.fails = [](int rank, int64_t call) { return rank == 1 && call == 2; };
  const auto statuses = two.Run([&](int, SharingReplica& replica) {
    SHAMPOO_RETURN_IF_ERROR(replica.Share(0));
    return replica.Share(1);
  });
  CheckOk(statuses[0]);
  CheckError(statuses[1], Code::kComm, "rank 1: all_gather of the communicator returned 2");
  CHECK(two[1].shards.calls.size() == 1);  // the shard ranks agree only once
  const auto next = two.Run([&](int rank, SharingReplica& replica) {
    return rank == 0 ? replica.Share(0) : (replica.exchange->Report(0, statuses[1]), Status());
  });
  CHECK(next[0].message() == statuses[1].message());
}

TEST_CASE("replicas whose steps have different inputs get an error that names the difference") {
  struct Case {
    StepDecision other;
    bool takes_part;
    int64_t counter;
    Code code;
    const char* says;
  };
  const Case cases[] = {
      {{.status = {}, .exports = true}, true, 0, Code::kState, "rank 1 exports averages and rank 0 makes a step"},
      {{.status = {}, .skip_step = true}, true, 0, Code::kInvalid, "rank 1 skips this step, unlike rank 0"},
      {{}, false, 0, Code::kInvalid, "rank 1 has no gradient for parameter \"p2\" and rank 0 has a gradient"},
      {{}, true, 5, Code::kState, "rank 1 is at step 5 and rank 0 at step 0"}};
  for (const Case& one : cases) {
    RanksOnThreads<SharingReplica> two(2, kTwoBuckets, kFourMatrices);
    two[1].context.participants().flags()[2] = static_cast<char>(one.takes_part);
    CheckOk(two[1].state().WriteSteps(0, one.counter));
    const auto statuses = two.Run([&](int rank, SharingReplica& replica) {
      return rank == 0
                 ? replica.Share(0)
                 : replica.Share(0, {.status = {}, .skip_step = one.other.skip_step, .exports = one.other.exports});
    });
    CheckAllFail(statuses, one.code, one.says);
  }
}

TEST_CASE("a rank's own failure has priority over a failure that another rank forwards") {
  RanksOnThreads<SharingReplica> two(2, kTwoBuckets, kFourMatrices);
  const auto statuses = two.Run([&](int rank, SharingReplica& replica) {
    return replica.Share(0, {.status = Numeric(rank == 0 ? "heard of it" : "NaN"), .is_forwarded = rank == 0});
  });
  CheckAllFail(statuses, Code::kNumeric, "rank 1: NaN");
}

TEST_CASE(
    "ReportWithShards reports a failure to the replicas and, only at the first bucket, also to the other shard ranks") {
  for (const int64_t bucket : {0, 1}) {
    CAPTURE(bucket);
    RanksOnThreads<SharingReplica> two(2, kTwoBuckets, kFourMatrices);
    const auto statuses = two.Run([&](int rank, SharingReplica& replica) {
      if (bucket == 1) SHAMPOO_RETURN_IF_ERROR(replica.Share(0));
      if (rank == 0) return replica.Share(bucket);
      replica.shards.calls.clear();
      return replica.exchange->ReportWithShards(bucket, CommFailed("no collect"), &replica.shards), Status();
    });
    CHECK(statuses[0].code() == Code::kComm);
    CHECK(statuses[0].message() == "no collect");
    CHECK(two[1].shards.calls == (bucket == 0 ? CallTexts{"report: no collect"} : CallTexts{}));
  }
}

}  // namespace
}  // namespace shampoo
