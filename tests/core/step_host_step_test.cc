// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests whole steps on the CPU, on one rank and on several ranks. Each rank is a thread. If there are several ranks,
// they are replicas, shard ranks with shard_mode=local, or shard ranks with shard_mode=gather.
#include <limits>

#include "tests/core/log_capture.h"
#include "tests/core/status_check.h"
#include "tests/core/stepping_ranks.h"

namespace shampoo {
namespace {

using Floats = std::vector<float>;

TEST_CASE("a preconditioned scalar moves by the learning rate in the first step") {
  Alone alone(
      kPlainDescent + "precondition_1d=true precondition_frequency=1 beta2=1 root_relative_epsilon=0 epsilon=1e-30",
      {{1}});
  alone.gradients[0] = {8};
  CheckOk(alone.Step());  // F = 64, so the direction is 8 / sqrt(64)
  CHECK(alone.params[0][0] == doctest::Approx(0.5));
  alone.gradients[0] = {6};
  CheckOk(alone.Step());  // F = 100
  CHECK(alone.params[0][0] == doctest::Approx(0.5 - 0.5 * 0.6));
}

TEST_CASE("a step that is rejected leaves parameters and state unchanged") {
  Alone alone;
  FillGradient(1, 0, alone.gradients.data());
  CheckOk(alone.Step());
  const auto params = alone.params;
  const auto arena = alone.States();
  alone.gradients[1][2] = kNan;
  CheckError(alone.Step(), Code::kNumeric, "the gradient of parameter \"p1\" has NaN at element 2");
  CheckError(alone.step.Step(Invalid("a caller's mistake"), nullptr), Code::kInvalid, "a caller's mistake");
  CHECK(alone.params == params);
  CHECK(alone.States() == arena);
  CHECK(alone.history().counts().steps == 1);
  alone.gradients[1][2] = 1;
  CheckOk(alone.Step());
  CHECK(alone.steps() == 2);
}

TEST_CASE("a step that is skipped changes nothing and succeeds") {
  Alone alone(kAllStates + "on_nonfinite=skip_step");
  const LogCapture log;
  const auto params = alone.params;
  const auto arena = alone.States();
  alone.gradients[0][0] = kNan;
  CheckOk(alone.Step());
  CHECK(alone.params == params);
  CHECK(alone.States() == arena);
  CHECK(alone.history().counts().skipped_steps == 1);
  CHECK(log.messages().size() == 1);
}

TEST_CASE("a step reads state_in, writes state_out, and is bit-identical to a step in place") {
  Alone in_place;
  Alone apart;
  CallerArena arenas[] = {CallerArena(apart.plan().state_bytes()), CallerArena(apart.plan().state_bytes())};
  const char* in = apart.state().out();
  for (int step = 0; step < 4; ++step) {
    char* const out = arenas[step % 2].data();
    CheckOk(apart.state().Bind(in, out));
    const std::vector<char> before(in, in + apart.plan().state_bytes());
    for (Alone* one : {&in_place, &apart}) {
      FillGradients(step, one);
      CheckOk(one->Step());
    }
    CHECK(std::vector<char>(in, in + apart.plan().state_bytes()) == before);
    CHECK(apart.States() == in_place.States());
    CHECK(apart.params == in_place.params);
    in = out;
  }
}

TEST_CASE("a step needs a usable state, all buffers, and valid bound scalars") {
  Alone alone;
  alone.state().MarkUnusable("the load failed");
  CheckError(alone.Step(), Code::kState, "the load failed");
  alone.state().MarkReplaced();
  float lr = -1;
  CheckOk(alone.state().hyper_parameters().Bind(0, "lr", static_cast<int>(Dtype::kF32), &lr));
  CheckError(alone.Step(), Code::kInvalid, "the scalar bound to group 0: key lr");
  lr = 1;
  CheckOk(alone.Step());

  const BoundBuffers unbound(alone.plan());
  const StepInputs inputs{alone.plan(), alone.state(), unbound, alone.history()};
  LocalStep step(inputs, alone.backend(), std::make_unique<NoShards>());
  CheckError(step.Step({}, nullptr), Code::kState, "parameter \"p0\" (index 0) has no buffers");
}

TEST_CASE("an error that is deferred to the next step makes only that step fail, or no step if the state is replaced") {
  for (const bool replaced : {false, true}) {
    Alone alone;
    alone.history().DeferSkippedUpdate(0, OnNonFinite::kError);
    if (replaced) alone.state().MarkReplaced();
    CHECK(alone.Step().ok() == replaced);
    alone.history().DeferRootFailureOfOtherRank(0);
    if (replaced) alone.state().MarkReplaced();
    CHECK(alone.Step().ok() == replaced);
    CheckOk(alone.Step());
  }
}

TEST_CASE("steps of replicas are bit-identical to those of one rank, with one bucket or several") {
  for (const char* const bucket_bytes : {"0", "1"}) {
    SteppingRanks<ReplicaRank> replicas(3, Cat("comm_bucket_bytes=", bucket_bytes));
    Alone alone;
    for (int step = 0; step < 5; ++step) {
      FillGradients(step, &alone);
      for (size_t rank = 0; rank < 3; ++rank) FillGradients(step, &replicas[rank]);
      CheckOk(alone.Step());
      replicas.StepOk();
      for (size_t rank = 0; rank < 3; ++rank) {
        CHECK(replicas[rank].params == alone.params);
        CHECK(replicas[rank].steps() == alone.steps());
      }
    }
  }
}

TEST_CASE("a failure on one replica is an error on all replicas, and no rank writes parameters") {
  SteppingRanks<ReplicaRank> replicas(2, "comm_bucket_bytes=1");
  replicas[1].gradients[0][0] = kNan;
  const auto before = replicas[0].params;
  const std::vector<Status> statuses = replicas.Step();
  for (const Status& status : statuses) {
    CheckError(status, Code::kNumeric, "rank 1: the gradient of parameter \"p0\" has NaN");
    CHECK(status.message() == statuses[0].message());
  }
  CHECK(replicas[0].params == before);
  CHECK(replicas[1].params == before);
  CHECK(replicas[1].steps() == 0);
}

TEST_CASE("replicas skip a step together") {
  SteppingRanks<ReplicaRank> replicas(2, "on_nonfinite=skip_step");
  const LogCapture log;
  for (size_t rank = 0; rank < 2; ++rank) replicas[rank].gradients[0][0] = kNan;
  const auto before = replicas[0].params;
  replicas.StepOk();
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(replicas[rank].params == before);
    CHECK(replicas[rank].history().counts().skipped_steps == 1);
  }
}

TEST_CASE("verify_replicas detects parameters that differ between replicas") {
  SteppingRanks<ReplicaRank> replicas(2, "verify_replicas=2");
  replicas.StepOk();
  replicas[1].params[1][0] += 1;
  replicas.StepOk();  // parameters are not compared in the second step
  CheckAllFail(replicas.Step(), Code::kState, "verify_replicas: parameter \"p1\" differs between rank 1 and rank 0");
}

TEST_CASE("after a collective has failed on a single replica, the later steps of all replicas fail") {
  SteppingRanks<ReplicaRank> replicas(2, OptionKeys{});
  replicas.threads.fails = [](int rank, int64_t call) { return rank == 1 && call == 1; };
  const std::vector<Status> first = replicas.Step();
  CheckOk(first[0]);
  CheckError(first[1], Code::kComm, "rank 1: all_gather of the communicator returned 2");
  for (const Status& status : replicas.Step()) CHECK(status.code() == Code::kComm);
  CheckAllFail(replicas.Step(), Code::kComm, "a collective or a CUDA call failed before");
}

TEST_CASE("steps of shard ranks that gather their blocks are bit-identical to those of one rank") {
  for (const bool with_all_to_all : {false, true}) {
    for (const char* const bucket_bytes : {"0", "1"}) {
      CAPTURE(with_all_to_all);
      SteppingRanks<ShardRank> shards({3, with_all_to_all}, kGather + Cat("comm_bucket_bytes=", bucket_bytes));
      Alone alone;
      for (int step = 0; step < 5; ++step) {
        FillGradients(step, &alone);
        for (size_t rank = 0; rank < 3; ++rank) shards[rank].Fill(step);
        CheckOk(alone.Step());
        shards.StepOk();
        for (size_t rank = 0; rank < 3; ++rank) {
          CHECK(shards[rank].Holds(alone.params));
          CHECK(shards[rank].steps() == alone.steps());
        }
      }
    }
  }
}

TEST_CASE("a failure on one shard rank is an error on all shard ranks and changes nothing") {
  for (const bool gathers : {false, true}) {
    SteppingRanks<ShardRank> shards(2, gathers ? kGather : OptionKeys{});
    shards[1].gradients[0][0] = kNan;
    const std::vector<std::vector<char>> before{shards[0].States(), shards[1].States()};
    const std::vector<Status> statuses = shards.Step();
    for (size_t rank = 0; rank < 2; ++rank) {
      CheckError(statuses[rank], Code::kNumeric, "the gradient of parameter \"p0\" has NaN at element ");
      CHECK(statuses[rank].message() == statuses[0].message());
      CHECK(shards[rank].States() == before[rank]);
      CHECK(shards[rank].params[0] == Floats(12, 1.0F));
    }
    shards[1].gradients[0][0] = 1;
    shards.StepOk();
  }
}

TEST_CASE("a gathered block with a bad gradient is skipped on all ranks that hold a part of it") {
  SteppingRanks<ShardRank> shards(2, kGather + "on_nonfinite=skip_block");
  Alone alone(kAllStates + "on_nonfinite=skip_block");
  const LogCapture log;
  alone.gradients[0][13] = kNan;
  shards[1].gradients[0][1] = kNan;  // the same element: shard rank 1 holds elements 12 to 23
  CheckOk(alone.Step());
  shards.StepOk();
  CHECK(alone.params[0][1] == 1);  // elements 1 and 13 are in the same block, and element 5 is in another block
  CHECK(alone.params[0][5] != 1);
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(shards[rank].Holds(alone.params));
    CHECK(shards[rank].history().counts().nonfinite_blocks == 1);
  }
}

TEST_CASE("the parameter copy that a shard rank binds receives the new elements of this rank") {
  for (const bool gathers : {false, true}) {
    SteppingRanks<ShardRank> shards(2, gathers ? kGather : OptionKeys{});
    std::vector<Floats> copies;
    for (size_t rank = 0; rank < 2; ++rank) copies.emplace_back(12, 9.0F);
    for (size_t rank = 0; rank < 2; ++rank) {
      ShardRank& shard = shards[rank];
      shard.Bind(0, shard.gradients[0].data(), shard.params[0].data(), copies[rank].data());
    }
    shards.StepOk();
    for (size_t rank = 0; rank < 2; ++rank) CHECK(copies[rank] == shards[rank].params[0]);
  }
}

TEST_CASE("the owner of a gathered block skips an update that would overflow a parameter copy on another rank") {
  for (const bool with_copy : {false, true}) {
    SteppingRanks<ShardRank> shards(2, kGather + "on_nonfinite=skip_block", Dtype::kF16);
    const LogCapture log;
    Floats copies(24);
    for (size_t rank = 0; rank < 2; ++rank) {
      ShardRank& shard = shards[rank];
      shard.params[0].assign(12, 70000.0F);  // above the largest float16 number
      float* const copy = with_copy ? &copies[12 * rank] : nullptr;
      shard.Bind(0, shard.gradients[0].data(), shard.params[0].data(), copy);
    }
    shards.StepOk();
    for (size_t rank = 0; rank < 2; ++rank) {
      CHECK((shards[rank].params[0] == Floats(12, 70000.0F)) == with_copy);
      CHECK(shards[rank].history().counts().nonfinite_blocks == (with_copy ? 2 : 0));
    }
  }
}

TEST_CASE("with shard_mode=gather, a step that one rank skips is skipped on all ranks") {
  SteppingRanks<ShardRank> shards(2, kGather + "on_nonfinite=skip_step");
  const LogCapture log;
  shards[0].gradients[0][1] = kNan;
  shards.StepOk();
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(shards[rank].params[0] == Floats(12, 1.0F));
    CHECK(shards[rank].history().counts().skipped_steps == 1);
    CHECK(shards[rank].steps() == 0);
  }
}

// In a step with shard_mode=gather, a collect round is followed by a deliver round (core/step/block_gather.h).
TEST_CASE("if the collect round fails on one shard rank, the deliver round reports the failure to all ranks") {
  for (const bool with_all_to_all : {false, true}) {
    SteppingRanks<ShardRank> shards({2, with_all_to_all}, kGather);
    shards.threads.fails = [](int rank, int64_t call) { return rank == 1 && call == 2; };
    const std::vector<Status> statuses = shards.Step();
    CheckError(statuses[0], Code::kComm, "shard rank 1: ");
    CheckError(statuses[1], Code::kComm, with_all_to_all ? "all_to_all" : "all_gather");
    CHECK(shards[0].params[0] == Floats(12, 1.0F));
    CheckAllFail(shards.Step(), Code::kComm, "a collective or a CUDA call failed before");
  }
}

}  // namespace
}  // namespace shampoo
