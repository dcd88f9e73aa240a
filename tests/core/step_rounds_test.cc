// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the rounds of a step (core/comm/round.h) with ranks that send invalid numbers, are in another round, or fail.
#include <cstddef>
#include <random>

#include "core/comm/agreement.h"
#include "core/comm/round.h"
#include "core/comm/segment_header.h"
#include "core/rules/step_program.h"
#include "core/step/gradient_checker.h"
#include "tests/core/comm_test_util.h"
#include "tests/core/step_ranks.h"

namespace shampoo {
namespace {

// The rounds of rank 0. The other ranks send copies of its data unless a test changes these copies (MirrorComm).
struct MirroredRounds {
  explicit MirroredRounds(int world = 2) : comm(world) {}
  // Runs a round in which each rank sends only its header.
  Status Run(int64_t round) {
    const RoundHeader header = rounds.HeaderFor(round, {}, 0);
    std::vector<RoundHeader> buffer(static_cast<size_t>(comm.get()->world()), header);
    SHAMPOO_RETURN_IF_ERROR(comm.get()->GatherInPlace(buffer.data(), sizeof header));
    return rounds.Receive(header, [&](int rank) { return &buffer[static_cast<size_t>(rank)]; });
  }

  MirrorComm comm;
  Rounds rounds{comm.shared(), comm.get()->TakeOptimizerId()};
};

constexpr size_t kCodeAt = offsetof(RoundHeader, code);
constexpr size_t kFlagsAt = offsetof(RoundHeader, flags);
constexpr size_t kPlaceAt = offsetof(RoundHeader, place);

TEST_CASE("invalid numbers in the header of a round make the round fail with SHAMPOO_E_COMM") {
  const auto check = [](const char* what, size_t at, auto number) {
    CAPTURE(number);
    MirroredRounds one;
    one.comm.PutFrom(1, at, number);
    CheckCommError(one.Run(1), Cat("rank 0 received an invalid ", what, " from rank 1"));
    CHECK(one.comm.aborts == 1);
  };
  for (const int32_t code : {-1, 10, 255, INT32_MIN, INT32_MAX}) check("status code", kCodeAt, code);
  for (const int32_t flags : {-1, 16, 255, INT32_MIN, INT32_MAX}) check("set of flags", kFlagsAt, flags);
  for (const int64_t optimizer : {int64_t{-1}, int64_t{1} << 32, INT64_MIN, INT64_MAX}) {
    check("optimizer number", kPlaceAt, optimizer);
  }
  for (const int64_t round : {0xffffffff, 0x80000000}) check("round number", kPlaceAt, round);
}

TEST_CASE("a round fails on this rank if another rank is in another round or makes a step of another optimizer") {
  for (const int64_t place : {PlaceOfRound(0, 0), PlaceOfRound(1, 1)}) {
    MirroredRounds one;
    (void)one.comm.get()->TakeOptimizerId();
    one.comm.ChangeFrom(1, [place](char* segment) {
      Put(segment, kPlaceAt, place);
      Put(segment, kCodeAt, 50);
    });
    CheckError(one.Run(1), Code::kComm, "if several optimizers use the same communicator, step them in the same order");
    CHECK(one.comm.get()->failure_is_known());
    CHECK(one.comm.aborts == 0);  // the other rank finds the same difference
  }
}

// A failure is forwarded if the rank that sends it only reports the failure of another rank.
TEST_CASE("FindFailure prefers a failed collective, then the lowest rank's own failure, then a forwarded failure") {
  struct Case {
    std::vector<Code> codes;
    std::vector<uint32_t> flags;
    int rank;
    bool is_forwarded;
    bool on_all_ranks;
  };
  const Case cases[] = {
      {{Code::kOk, Code::kOk, Code::kOk}, {0, 0, 0}, -1, false, false},
      {{Code::kOk, Code::kInvalid, Code::kNumeric}, {0, 0, 0}, 1, false, false},
      {{Code::kOk, Code::kInvalid, Code::kNumeric}, {0, kFailureIsForwarded, 0}, 2, false, false},
      {{Code::kOk, Code::kInvalid, Code::kOk}, {0, kFailureIsForwarded, 0}, 1, true, false},
      {{Code::kInvalid, Code::kInvalid, Code::kComm}, {0, 0, kFailureIsForwarded}, 2, true, true},
  };
  for (const Case& one : cases) {
    CAPTURE(&one - cases);
    MirroredRounds three(3);
    three.comm.change = [&](int64_t, int from, char* segment, size_t) {
      Put(segment, kCodeAt, static_cast<int32_t>(one.codes[static_cast<size_t>(from)]));
      Put(segment, kFlagsAt, one.flags[static_cast<size_t>(from)]);
    };
    REQUIRE(three.Run(0).ok());
    const RoundFailure failure = three.rounds.FindFailure();
    CHECK(failure.rank == one.rank);
    CHECK(failure.is_forwarded == one.is_forwarded);
    CHECK(failure.on_all_ranks == one.on_all_ranks);
    CHECK(failure.found() == (one.rank >= 0));
    if (failure.found()) CHECK(failure.code == one.codes[static_cast<size_t>(one.rank)]);
  }
}

TEST_CASE("an error message is fetched in one exchange, and the error names a rank that sent no message") {
  for (const char* const sent : {"no more memory", ""}) {
    MirroredRounds one;
    RoundFailure failure;
    failure.rank = 1;
    failure.code = Code::kNoMemory;
    one.comm.ChangeFrom(1, [sent](char* segment) { std::strncpy(segment, sent, kTextBytes); });
    CheckError(one.rounds.FetchError(failure, "an error of this rank"), Code::kNoMemory,
               *sent != '\0' ? "rank 1: no more memory" : "rank 1 failed, but sent no error message");
    CHECK(one.comm.calls == 1);
  }
}

TEST_CASE("a flag of a round is set if at least one rank has set it") {
  MirroredRounds three(3);
  three.comm.change = [&](int64_t, int from, char* segment, size_t) {
    Put(segment, kFlagsAt, from == 1 ? kSkipsStep : from == 2 ? kNeedsExactCheck : 0);
  };
  REQUIRE(three.Run(0).ok());
  CHECK(three.rounds.AnyFlags() == (kSkipsStep | kNeedsExactCheck));
}

TEST_CASE("Report joins a round at each call, but after a failed collective only at the first call") {
  for (const bool failed : {false, true}) {
    CommOps ops;  // there is no abort function, so the other ranks do not fail immediately
    ops.world = 2;
    ops.all_gather = [](void*, const void*, void*, size_t, void*) { return int32_t{1}; };
    std::shared_ptr<Communicator> lost;
    REQUIRE(Communicator::Create(ops, &lost).ok());
    if (failed) CHECK(!lost->AllGatherInt(0).ok());
    Rounds rounds(lost, 0);
    int joined = 0;
    for (int i = 0; i < 3; ++i) rounds.Report([&] { ++joined; });
    CHECK(joined == (failed ? 1 : 3));
  }
}

TEST_CASE("the status codes and flags that ranks gather after a step on a device are checked") {
  const auto gather = [](int64_t from_rank_1) {
    MirroredRounds one;
    one.comm.PutFrom(1, 0, from_rank_1);  // the status code plus 256 times the flags
    return one.rounds.GatherCodes({}, 0);
  };
  CheckCommError(gather(77), "received an invalid status code from rank 1: 77");
  CheckCommError(gather(-1), "received an invalid status code from rank 1: -1");
  CheckCommError(gather(16 * 256), "received an invalid set of flags from rank 1: 16");
  CheckOk(gather(8 * 256));
}

TEST_CASE("ranks know whether all of them export averages") {
  for (const uint32_t other : {kExports, uint32_t{0}}) {
    MirroredRounds one;
    one.comm.PutFrom(1, 0, int64_t{other} * 256);
    CheckOk(one.rounds.GatherCodes({}, kExports));
    CHECK(one.rounds.AllExport() == (other == kExports));
  }
}

const std::vector<std::vector<int64_t>> kMatrixAndVector = {{2, 3}, {4}};

// A replica that exchanges all updates in one bucket.
struct Replica {
  Status Share() { return sharing.Share(0); }

  MirrorComm comm;
  SharingReplica sharing{comm.shared(), "max_preconditioner_dim=4", kMatrixAndVector};
};

TEST_CASE("an invalid factor matrix index makes the exchange fail with SHAMPOO_E_COMM") {
  for (const int64_t number : {int64_t{-2}, int64_t{3}, int64_t{1000}, INT64_MIN, INT64_MAX}) {
    Replica replica;
    replica.comm.PutFrom(1, offsetof(SegmentHeader, failing_root), number);
    CheckCommError(replica.Share(), "rank 0 received an invalid factor matrix index from rank 1");
  }
}

TEST_CASE("a root that fails too often on another replica is reported by the next step") {
  for (const int from_rank : {0, 1}) {
    Replica replica;
    replica.comm.PutFrom(from_rank, offsetof(SegmentHeader, failing_root), int64_t{1});
    REQUIRE(replica.Share().ok());
    replica.sharing.exchange->DeferRootFailures();
    bool is_forwarded = false;
    const Status status = replica.sharing.history().RaiseRootFailure(&is_forwarded);
    // Rank 0 defers no failure of its own root, because rank 0 has already recorded this failure.
    CheckOkIf(from_rank == 0, status, Code::kNumeric, "p0/0/factor.1");
    CHECK(is_forwarded == (from_rank == 1));
  }
}

TEST_CASE("replicas at different steps, or with different hyper-parameters or inputs, get an error that names a rank") {
  struct Case {
    size_t at;
    Code code;
    const char* says;
  };
  for (const Case& one :
       {Case{offsetof(SegmentHeader, step), Code::kState, "rank 1 is at step 7 and rank 0 at step 0"},
        Case{offsetof(SegmentHeader, hyper_parameters), Code::kInvalid, "rank 1 has a different learning"},
        Case{offsetof(SegmentHeader, inputs), Code::kComm,
             "the hashes of the inputs of a step differ between ranks"}}) {
    Replica replica;
    replica.comm.change = [&](int64_t call, int from, char* segment, size_t) {
      if (from == 1 && call == 1) Put(segment, one.at, int64_t{7});
    };
    CheckError(replica.Share(), one.code, one.says);
  }
}

TEST_CASE(
    "a failure on another replica fails the step with the message of that replica and a note on what has changed") {
  Replica replica;
  replica.comm.change = [&](int64_t call, int from, char* segment, size_t bytes) {
    if (call == 1) Put(segment, kCodeAt, from == 1 ? static_cast<int32_t>(Code::kNumeric) : 0);
    if (bytes == kTextBytes && from == 1)
      std::strncpy(segment, "NaN somewhere; the step has changed nothing. Try less", bytes);
  };
  const Status status = replica.Share();
  CHECK(status.code() == Code::kNumeric);
  CHECK_MESSAGE(status.message().find("rank 1: NaN somewhere. Try less. Other ranks could not detect this") == 0,
                status.message());
}

struct Shard {
  explicit Shard(int world = 2, int rank = 0) : comm(world, rank), agreeing(comm.shared(), kMatrixAndVector) {}
  Status Agree() { return agreeing.Agree().status.Copy(); }

  MirrorComm comm;
  AgreeingShard agreeing;
};

TEST_CASE("invalid numbers in the agreement of shard ranks make the agreement fail with SHAMPOO_E_COMM") {
  const auto check = [](const char* what, const std::function<void(char* segment)>& change) {
    CAPTURE(std::string(what));
    Shard shard;
    shard.comm.ChangeFrom(1, change);
    CheckCommError(shard.Agree(), Cat("received an invalid ", what, " from shard rank 1"));
    CHECK(shard.comm.aborts == 1);
  };
  for (const int64_t step : {int64_t{-1}, kStepLimit + 1, INT64_MIN, INT64_MAX}) {
    check("step of a group", [&](char* to) { Put(to, kStepInSegment, step); });
  }
  for (int byte = 4; byte < 256; ++byte) {
    for (size_t p = 0; p < 2; ++p) {
      check("state of a gradient", [&](char* to) { to[kGradientsInSegment + p] = static_cast<char>(byte); });
    }
  }
}

TEST_CASE(
    "shard ranks compare hyper-parameters, gradients and steps, and activate a group that is active on another rank") {
  const auto check = [](const std::function<void(char* segment)>& change, Code code, const char* says) {
    Shard shard;
    shard.comm.ChangeFrom(1, change);
    CheckError(shard.Agree(), code, says);
    CHECK(!shard.comm.get()->failed());
  };
  check([](char* to) { Put(to, sizeof(RoundHeader), int64_t{1}); }, Code::kInvalid,
        "shard rank 1 has a different learning rate");
  check([](char* to) { to[kGradientsInSegment] = 1; }, Code::kInvalid,
        "shard rank 0 has a gradient for parameter \"p0\" and shard rank 1 has none");
  check([](char* to) { Put(to, kStepInSegment, int64_t{9}); }, Code::kState,
        "shard rank 1 is at step 9 of group 0, and shard rank 0 is at step 1");

  Shard other;  // the group is active on another rank, and not on this rank
  const std::span<char> flags = other.agreeing.context.participants().flags();
  flags[0] = flags[1] = 0;
  StepFixture::Ok(other.agreeing.context.List());
  other.comm.PutFrom(1, kStepInSegment, int64_t{1});
  CHECK(!other.agreeing.context.group(0).active);
  CheckOk(other.Agree());
  CHECK(other.agreeing.context.group(0).active);
}

TEST_CASE("shard ranks at different steps get the same error in every agreement") {
  Shard shard(2, 1);
  shard.comm.PutFrom(0, kStepInSegment, int64_t{9});
  const int64_t steps[] = {4};
  shard.agreeing.rounds.SetInputs(steps);
  for (int i = 0; i < 2; ++i) {
    CheckError(shard.agreeing.rounds.AgreeOnError({}), Code::kState,
               "shard rank 1 is at step 4 of group 0, and shard rank 0 is at step 9");
  }
}

TEST_CASE("an agreement of shard ranks succeeds or returns an error, whatever bytes a rank receives") {
  std::mt19937_64 random(9);
  int agreed = 0;
  for (int i = 0; i < 500; ++i) {
    Shard shard(3, 1);
    shard.comm.change = [&](int64_t, int, char* segment, size_t) {
      if (random() % 2 != 0) return;
      segment[random() % (kGradientsInSegment + 2)] = static_cast<char>(random() % 3 != 0 ? random() % 4 : random());
    };
    const Status status = shard.Agree();
    agreed += status.ok() ? 1 : 0;
    for (size_t p = 0; p < 2 && status.ok(); ++p) CHECK(shard.agreeing.rounds.HasGradient(p));
    CHECK(std::string(CodeName(status.code())) != "unknown status");
    CHECK(status.code() != Code::kInternal);
  }
  CHECK(agreed > 2);
}

}  // namespace
}  // namespace shampoo
