// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests how replicas compare the inputs of a step, and their parameters. step_rounds_test.cc tests the comparison of
// hyper-parameters.
#include "core/step/replica_inputs.h"
#include "core/step/scan_spans.h"
#include "tests/core/comm_test_util.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

// The inputs of a step with two parameters and two groups.
struct Inputs {
  Inputs() { Set(); }
  void Set(int64_t first_counter = 3, bool second_takes_part = true, bool excludes = false, bool skip_step = false) {
    const int64_t counters[] = {first_counter, 5};
    const Param* const second = &fixture.plan().params[1];
    StepItem item{};
    item.block = &fixture.plan().blocks[0];
    inputs.Set([&](const Param& param) { return &param != second || second_takes_part; },
               std::span<const StepItem>(&item, excludes ? 1 : 0), counters, skip_step);
  }

  StepFixture fixture{{.keys = {}, .params = StepFixture::Describe({{2, 3}, {4}}), .more_groups = {{}}}};
  ReplicaInputs inputs{fixture.plan()};
};

TEST_CASE("the hash of the inputs of a step depends on each input") {
  Inputs one;
  const uint64_t start = one.inputs.Hash();
  CHECK(Inputs().inputs.Hash() == start);
  const auto hash_of = [&](auto... values) {
    one.Set(values...);
    return one.inputs.Hash();
  };
  CHECK(hash_of(4) != start);
  CHECK(hash_of(3, false) != start);
  CHECK(hash_of(3, true, true) != start);
  CHECK(hash_of(3, true, false, true) != start);
  CHECK(hash_of() == start);
}

TEST_CASE("the error for the first input that differs names two ranks and their values") {
  struct Case {
    // The position of the input that differs. 0 and 1: a parameter; 2 and 3: a group; 4: the ReplicaInputs::Action.
    size_t index;
    // The input of rank 2 at this position. For a parameter: 1 if it has a gradient, plus 2 for each excluded block.
    // For a group: the number of steps that it has made. For the Action: 1 (kSkips), because the rank skips the step.
    int64_t value;
    Code code;
    const char* says;
  };
  for (const Case& one :
       {Case{1, 0, Code::kInvalid, "rank 2 has no gradient for parameter \"p1\" and rank 0 has a gradient"},
        Case{0, 3, Code::kNumeric,
             "rank 2 finds 1 block of parameter \"p0\" with a gradient that is too large or not finite"},
        Case{2, 9, Code::kState, "rank 2 has made 9 steps of group 0 and rank 0 has made 3"},
        Case{3, 1, Code::kState, "rank 2 has made 1 step of group 1 and rank 0 has made 5"},
        Case{4, 1, Code::kInvalid, "rank 2 skips this step"}}) {
    const Inputs inputs;
    MirrorComm comm(3, 0);
    comm.PutFrom(2, one.index * sizeof(int64_t), one.value);
    CheckError(inputs.inputs.FindDifference(comm.get()), one.code, one.says);
  }
  const MirrorComm same(3, 0);
  CheckOk(Inputs().inputs.FindDifference(same.get()));
}

TEST_CASE("the hash of parameters depends on each element, and FindDifference names the parameter that differs") {
  StepFixture fixture({}, {{2, kScanElements}, {4}});
  ParameterHashes hashes(fixture.plan(), fixture.backend().get());
  const BoundBuffers& buffers = fixture.inputs().buffers;
  hashes.Update(buffers);
  const uint64_t start = hashes.Hash();
  for (float* const element : {&fixture.params[0].front(), &fixture.params[0].back(), &fixture.params[1].back()}) {
    *element = 2;
    hashes.Update(buffers);
    CHECK(hashes.Hash() != start);
    *element = 1;
  }
  hashes.Update(buffers);
  CHECK(hashes.Hash() == start);

  MirrorComm comm(3, 0);
  comm.PutFrom(1, sizeof(int64_t), int64_t{1});
  CheckError(hashes.FindDifference(comm.get()), Code::kState, "parameter \"p1\" differs between rank 1 and rank 0");
  const MirrorComm same;
  CheckCommError(hashes.FindDifference(same.get()), "the hashes of the parameters differ between ranks");
}

}  // namespace
}  // namespace shampoo
