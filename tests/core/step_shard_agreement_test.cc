// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests agreements of shard ranks if one of the ranks skips a step, fails, or only reports a failure.
// step_rounds_test.cc tests how shard ranks compare their inputs and handle invalid numbers.
#include <cstring>

#include "tests/core/comm_test_util.h"
#include "tests/core/ranks_on_threads.h"
#include "tests/core/step_ranks.h"
#include "tests/core/thread_ranks.h"

namespace shampoo {
namespace {

// The shapes of three parameters. Only other ranks have elements of the third parameter.
const std::vector<std::vector<int64_t>> kThirdElsewhere = {{2, 3}, {4}, {0}};

struct MirroredShard {
  // `sent` is the segment (the data of one rank in an all-gather) that this rank sends. The other rank sends a copy of
  // `sent`. `change` may modify the copy, but not `sent`.
  explicit MirroredShard(const std::function<void(char* segment)>& change = {})
      : shard(comm.shared(), kThirdElsewhere) {
    comm.change = [this, change](int64_t, int from, char* segment, size_t bytes) {
      if (from == 0) sent.assign(segment, segment + bytes);
      if (from == 1 && change) change(segment);
    };
  }
  int64_t SentStep() const {
    int64_t step = 0;
    std::memcpy(&step, sent.data() + kStepInSegment, sizeof step);
    return step;
  }
  std::vector<char> SentGradients() const {
    const auto first = sent.begin() + kGradientsInSegment;
    return {first, first + 3};
  }

  MirrorComm comm;
  std::vector<char> sent;
  AgreeingShard shard;
};

TEST_CASE("a rank without other shard ranks keeps its decision and its error") {
  NoShards none;
  StepDecision decision{.status = Numeric("its own"), .skip_step = true};
  none.Agree(&decision, nullptr);
  CheckError(decision.status, Code::kNumeric, "its own");
  CHECK(decision.skip_step);
  CheckError(none.AgreeAgain(std::move(decision.status)), Code::kNumeric, "its own");
}

TEST_CASE("if one shard rank decides to skip a step or to make the exact check, all shard ranks follow this decision") {
  for (const uint32_t flag : {kSkipsStep, kNeedsExactCheck}) {
    MirroredShard other([flag](char* segment) { Put(segment, offsetof(RoundHeader, flags), flag); });
    const StepDecision decision = other.shard.Agree();
    CheckOk(decision.status);
    CHECK(decision.skip_step == (flag == kSkipsStep));
    CHECK(decision.needs_exact_check == (flag == kNeedsExactCheck));

    MirroredShard own([](char* segment) { Put(segment, offsetof(RoundHeader, flags), 0); });
    const StepDecision agreed =
        own.shard.Agree({.status = {}, .skip_step = flag == kSkipsStep, .needs_exact_check = flag == kNeedsExactCheck});
    CHECK(agreed.skip_step == (flag == kSkipsStep));
    CHECK(agreed.needs_exact_check == (flag == kNeedsExactCheck));
  }
}

TEST_CASE(
    "a shard rank sends the number of its step and, for each parameter, whether it has a gradient and a copy buffer") {
  MirroredShard one;
  std::vector<float> copy(4);
  one.shard.Bind(0, nullptr);
  one.shard.Bind(1, one.shard.gradients[1].data(), one.shard.params[1].data(), copy.data());
  CheckOk(one.shard.state().WriteSteps(0, 6));
  CheckOk(one.shard.List());
  CheckOk(one.shard.Agree().status);
  CHECK(one.SentStep() == 7);
  CHECK(one.SentGradients() == std::vector<char>{kNoGradient, kGradientAndCopy, kNoElements});
}

TEST_CASE("a second agreement sends the inputs of the first agreement, and an agreement about a failure sends step 0") {
  MirroredShard one;
  CheckOk(one.shard.Agree().status);
  CheckOk(one.shard.rounds.AgreeOnError({}));
  CHECK(one.comm.calls == 2);
  CHECK(one.SentStep() == 1);
  StepDecision decision{.status = Numeric("NaN")};
  one.shard.rounds.AgreeOnCode(&decision, &one.shard.context);
  CHECK(one.SentStep() == 0);
}

TEST_CASE(
    "an agreement finds for each parameter whether any rank has a gradient, and whether any rank also has a copy "
    "buffer") {
  struct Case {
    std::vector<char> sent;  // what the other rank sends
    std::vector<bool> gradients, copies;
  };
  const Case cases[] = {{{kGradient, kNoGradient, kNoElements}, {true, false, false}, {false, false, false}},
                        {{kNoElements, kNoElements, kGradient}, {true, false, true}, {false, false, false}},
                        {{kGradientAndCopy, kNoGradient, kGradientAndCopy}, {true, false, true}, {true, false, true}}};
  for (const Case& one : cases) {
    MirroredShard rank(
        [&](char* segment) { std::copy(one.sent.begin(), one.sent.end(), segment + kGradientsInSegment); });
    rank.shard.Bind(1, nullptr);
    CheckOk(rank.shard.Agree().status);
    for (size_t p = 0; p < 3; ++p) {
      CHECK(rank.shard.rounds.HasGradient(p) == one.gradients[p]);
      CHECK(rank.shard.rounds.HasCopy(p) == one.copies[p]);
    }
  }
}

TEST_CASE("a group that is active only on other shard ranks gets the step number of these ranks") {
  MirroredShard one([](char* segment) {
    Put(segment, kStepInSegment, int64_t{7});
    std::memset(segment + kGradientsInSegment, kNoGradient, 2);
    segment[kGradientsInSegment + 2] = kGradient;
  });
  for (size_t p = 0; p < 2; ++p) one.shard.Bind(p, nullptr);
  CheckOk(one.shard.List());
  REQUIRE(!one.shard.context.group(0).active);
  CheckOk(one.shard.Agree().status);
  CHECK(one.shard.context.group(0).active);
  CHECK(one.shard.context.group(0).program.t == 7);
}

TEST_CASE("if one shard rank has an error, all shard ranks return the error and the flag is_forwarded of this rank") {
  for (const bool is_forwarded : {false, true}) {
    RanksOnThreads<AgreeingShard> two(2, kThirdElsewhere);
    const std::vector<Status> statuses = two.Run([&](int rank, AgreeingShard& shard) {
      StepDecision decision;
      if (rank == 1) decision = {.status = Numeric("NaN"), .is_forwarded = is_forwarded};
      decision = shard.Agree(std::move(decision));
      CHECK((rank == 1 || decision.is_forwarded == is_forwarded));
      return std::move(decision.status);
    });
    CheckAllFail(statuses, Code::kNumeric, "shard rank 1: NaN");
  }
}

TEST_CASE(
    "in the second agreement, a shard rank returns its own error or, if it has none, the error of another shard rank") {
  RanksOnThreads<AgreeingShard> two(2, kThirdElsewhere);
  const auto agree = [&](bool first_fails) {
    return two.Run([&](int rank, AgreeingShard& shard) {
      Status own = rank == 1 ? Numeric("NaN") : first_fails ? Invalid("differs") : Status();
      return shard.rounds.AgreeAgain(std::move(own));
    });
  };
  std::vector<Status> statuses = agree(false);
  CheckError(statuses[0], Code::kNumeric, "shard rank 1: NaN");
  CHECK(statuses[1].message() == "NaN");
  statuses = agree(true);
  CHECK(statuses[0].message() == "differs");
  CHECK(statuses[1].message() == "NaN");
}

TEST_CASE("shard ranks make no second agreement after one of their collectives has failed") {
  MirroredShard one;
  one.comm.error = 3;
  CheckError(one.shard.Agree().status, Code::kComm, "shard rank 0: all_gather of the communicator returned 3");
  one.comm.error = 0;
  CheckError(one.shard.rounds.AgreeAgain(Numeric("NaN")), Code::kNumeric, "NaN");
  CHECK(one.comm.calls == 1);
  CheckError(one.shard.rounds.PriorFailure(), Code::kComm, "a collective or a CUDA call failed before");
}

TEST_CASE("a shard rank that only reports a failure sends no inputs, and the other shard ranks return its error") {
  MirroredShard one;
  CheckOk(one.shard.Agree().status);
  one.shard.rounds.Report(Numeric("NaN"));
  CHECK(one.SentStep() == 0);
  CHECK(one.SentGradients() == std::vector<char>(3, kNoElements));

  RanksOnThreads<AgreeingShard> two(2, kThirdElsewhere);
  two.threads.fails = [](int rank, int64_t call) { return rank == 1 && call == 1; };
  const std::vector<Status> statuses = two.Run([](int, AgreeingShard& shard) { return shard.Agree().status.Copy(); });
  CheckOk(statuses[0]);
  CheckError(statuses[1], Code::kComm, "shard rank 1: all_gather of the communicator returned 2");
  const std::vector<Status> second = two.Run([&](int rank, AgreeingShard& shard) {
    if (rank == 1) return shard.rounds.Report(statuses[1]), Status();
    StepDecision decision;
    shard.rounds.AgreeOnCode(&decision, &shard.context);
    CHECK(!shard.rounds.text_is_due());  // AgreeOnCode() has exchanged the message, because a collective failed
    return std::move(decision.status);
  });
  CHECK(second[0].message() == statuses[1].message());
  CheckError(two[0].rounds.PriorFailure(), Code::kComm, "a collective or a CUDA call failed before");
}

TEST_CASE("AgreeOnCode() returns an error without its message, and FetchText() then exchanges the message") {
  RanksOnThreads<AgreeingShard> two(2, kThirdElsewhere);
  const std::vector<Status> statuses = two.Run([](int rank, AgreeingShard& shard) {
    StepDecision decision;
    if (rank == 1) decision.status = Numeric("NaN");
    shard.rounds.AgreeOnCode(&decision, &shard.context);
    CHECK(decision.status.code() == Code::kNumeric);
    CHECK(decision.status.message().empty());
    CHECK(shard.rounds.text_is_due());
    Status fetched = shard.rounds.FetchText();
    CHECK(!shard.rounds.text_is_due());
    return fetched;
  });
  CheckAllFail(statuses, Code::kNumeric, "shard rank 1: NaN");
}

TEST_CASE("the message of an error is not fetched after a later agreement, or if the communicator has failed") {
  const auto fail = [](AgreeingShard* shard) {
    StepDecision decision{.status = Numeric("NaN")};
    shard->rounds.AgreeOnCode(&decision, &shard->context);
    CHECK(shard->rounds.text_is_due());
  };
  RanksOnThreads<AgreeingShard> two(2, kThirdElsewhere);
  two.threads.fails = [](int rank, int64_t call) { return rank == 1 && call == 2; };
  const std::vector<Status> statuses = two.Run([&](int, AgreeingShard& shard) {
    fail(&shard);
    Status agreed = shard.Agree().status.Copy();
    CHECK(!shard.rounds.text_is_due());
    return agreed;
  });
  CheckOk(statuses[0]);
  CheckError(statuses[1], Code::kComm, "all_gather of the communicator returned 2");

  MirroredShard one;
  fail(&one.shard);
  one.comm.get()->Abort(CommFailed("the network is gone"));
  CHECK(!one.shard.rounds.text_is_due());
}

}  // namespace
}  // namespace shampoo
