// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Numbers that no rank sends, at the head of what ranks exchange in a step.
#include <cstddef>
#include <random>

#include "core/optimizer/exchange.h"
#include "core/optimizer/shard_status.h"
#include "core/rules/step_program.h"
#include "tests/core/comm_test_util.h"

namespace shampoo {
namespace {

// Two parameters in two groups, a block with two factor matrices, and one without.
PlanData MakePlan() {
  PlanData plan;
  plan.placement.replica_world = 2;
  plan.groups.resize(2);
  plan.params.resize(2);
  plan.params[0].desc.name = "first";
  plan.params[1].desc.name = "second";
  plan.blocks.resize(2);
  plan.blocks[0].shape = Shape::Of(std::vector<int64_t>{2, 3});
  plan.blocks[1].shape = Shape::Of(std::vector<int64_t>{4});
  plan.blocks[1].is_preconditioned = false;
  plan.bucket_segment_bytes = {128, 128};
  plan.bucket_count = 2;
  return plan;
}

SegmentHeader MakeHeader() {
  SegmentHeader header{};
  header.overdue_root = -1;
  return header;
}

struct Field {
  const char* what;
  size_t at;
  std::vector<int64_t> impossible;
};

TEST_CASE("impossible numbers in the header of an exchange are a failed communicator") {
  const PlanData plan = MakePlan();
  const int64_t least = INT64_MIN;
  const int64_t most = INT64_MAX;
  const std::vector<Field> fields = {
      {"status code", offsetof(SegmentHeader, code), {-1, 10, 255, int64_t{1} << 32, least, most}},
      {"flag of a forwarded failure", offsetof(SegmentHeader, echo), {-1, 2, 255, least, most}},
      {"number of a factor matrix", offsetof(SegmentHeader, overdue_root), {-2, 2, 1000, least, most}},
      {"number of an optimizer", offsetof(SegmentHeader, place), {-1, int64_t{1} << 32, least, most}},
      {"number of an exchange", offsetof(SegmentHeader, place), {0xffffffff, 0x80000000}}};
  for (const Field& field : fields) {
    for (const int64_t number : field.impossible) {
      CAPTURE(field.what);
      CAPTURE(number);
      MirrorComm comm;
      std::unique_ptr<Exchange> exchange;
      REQUIRE(Exchange::Create(plan, comm.shared(), comm.get()->TakeNumber(), {}, &exchange).ok());
      comm.change = [&](int64_t, int from, char* segment, size_t) {
        if (from == 1) Put(segment, field.at, number);
      };
      CheckSaysWhat(exchange->Gather(1, MakeHeader()),
                    Cat("rank 0 received an impossible ", field.what, " from rank 1"));
      CHECK(comm.aborts == 1);
    }
  }
}

TEST_CASE("a rank that is at another exchange, or steps another optimizer, is reported as such") {
  const PlanData plan = MakePlan();
  for (const int64_t place : {int64_t{0}, int64_t{1} << 32}) {
    MirrorComm comm;
    std::unique_ptr<Exchange> exchange;
    REQUIRE(Exchange::Create(plan, comm.shared(), comm.get()->TakeNumber(), {}, &exchange).ok());
    (void)comm.get()->TakeNumber();
    comm.change = [&](int64_t, int from, char* segment, size_t) {
      if (from == 1) Put(segment, offsetof(SegmentHeader, place), place);
      if (from == 1) Put(segment, offsetof(SegmentHeader, overdue_root), int64_t{50});  // of a larger plan
    };
    const Status status = exchange->Gather(1, MakeHeader());
    CHECK(status.code() == Code::kComm);
    CHECK_MESSAGE(status.message().find("must be stepped in the same order") != std::string::npos, status.message());
  }
}

// What ShardStatus sends, in this order: code, scalars, number, three flags, the step of each group, the gradients.
constexpr size_t kCodeAt = 0, kNumberAt = 16, kFlagsAt = 24, kStepsAt = 32, kGradientsAt = 48;

struct ShardedStep {
  explicit ShardedStep(MirrorComm* comm) : status(MakePlan(), comm->shared(), comm->get()->TakeNumber()) {}
  Status Agree() { return status.Agree({}, 7, &flags, steps, gradients); }

  ShardStatus status;
  ShardStatus::Flags flags;
  std::vector<int64_t> steps = {3, 0};
  std::vector<char> gradients = {ShardStatus::kGiven, ShardStatus::kNothing};
};

TEST_CASE("impossible numbers of the status of shards are a failed communicator") {
  const std::vector<Field> of_eight_bytes = {
      {"status code", kCodeAt, {-1, 10, int64_t{1} << 32, INT64_MIN, INT64_MAX}},
      {"number of an optimizer", kNumberAt, {-1, 1, INT64_MIN, INT64_MAX}},
      {"step of a group", kStepsAt, {-1, kStepLimit + 1, INT64_MIN, INT64_MAX}},
      {"step of a group", kStepsAt + 8, {-1, kStepLimit + 1, INT64_MIN, INT64_MAX}}};
  const auto check = [](const char* what, const std::function<void(char* segment)>& change) {
    CAPTURE(what);
    MirrorComm comm;
    ShardedStep step(&comm);
    comm.change = [&](int64_t, int from, char* segment, size_t) {
      if (from == 1) change(segment);
    };
    CheckSaysWhat(step.Agree(), Cat("received an impossible ", what, " from rank 1"));
    CHECK(comm.aborts == 1);
  };
  for (const Field& field : of_eight_bytes) {
    for (const int64_t number : field.impossible) check(field.what, [&](char* to) { Put(to, field.at, number); });
  }
  for (int byte = 2; byte < 256; ++byte) {
    for (size_t k = 0; k < 3; ++k)
      check("flag of a step", [&](char* to) { to[kFlagsAt + k] = static_cast<char>(byte); });
    if (byte <= ShardStatus::kGivenWithCopy) continue;
    for (size_t p = 0; p < 2; ++p) {
      check("state of a gradient", [&](char* to) { to[kGradientsAt + p] = static_cast<char>(byte); });
    }
  }
}

TEST_CASE("whatever bytes come, shards agree or fail") {
  std::mt19937_64 random(9);
  int agreed = 0;
  for (int i = 0; i < 3000; ++i) {
    MirrorComm comm(3, 1);
    ShardedStep step(&comm);
    comm.change = [&](int64_t, int, char* segment, size_t) {
      if (random() % 2 != 0) return;
      segment[random() % (kGradientsAt + 2)] = static_cast<char>(random() % 3 != 0 ? random() % 4 : random());
    };
    const Status status = step.Agree();
    agreed += status.ok() ? 1 : 0;
    for (const int64_t t : step.steps) CHECK((t >= 0 && t <= kStepLimit));
    for (const char gradient : step.gradients) CHECK((gradient >= 0 && gradient <= ShardStatus::kGivenWithCopy));
    CHECK(std::string(CodeName(status.code())) != "unknown status");
    CHECK(status.code() != Code::kInternal);
  }
  CHECK(agreed > 10);
}

TEST_CASE("a failure with an impossible code, of ranks that could not see it before, is a failed communicator") {
  MirrorComm comm;
  const std::vector<int64_t> codes = {0, 77};
  const std::vector<std::string> texts = {"", "text"};
  CheckSaysWhat(FailureOfRanks(comm.get(), codes, {}, texts), "received an impossible status code from rank 1: 77");
}

}  // namespace
}  // namespace shampoo
