// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the checks that an export of averages makes before it writes anything.
#include "core/step/weight_export.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

const OptionKeys kAveraged = "weight_ema=0.5";

TEST_CASE("an export needs a usable state and all buffers") {
  StepFixture fixture(kAveraged, {{2, 2}});
  const std::vector<void*> none(1);
  CheckOk(CheckExport(fixture.inputs(), none));
  fixture.state().MarkUnusable("the load failed");
  CheckError(CheckExport(fixture.inputs(), none), Code::kState, "the load failed");
  fixture.state().MarkReplaced();
  const BoundBuffers unbound(fixture.plan());
  CheckError(CheckExport({fixture.plan(), fixture.state(), unbound, fixture.history()}, none), Code::kState,
             "parameter \"p0\" (index 0) has no buffers");
}

// Three parameters. The first has 3 elements in float64 and a bfloat16 output. The second has 3 elements in float32 and
// a float64 output. The third has no elements.
struct TwoDtypes : StepFixture {
  TwoDtypes() : StepFixture(SetupOf()), bound(plan()) {
    for (int p = 0; p < 2; ++p) {
      const Buffers buffers{memory + 8, nullptr, nullptr, nullptr};
      Ok(bound.Bind(p, {&buffers, 1}));
    }
  }
  static Setup SetupOf() {
    Setup setup{.keys = kAveraged, .params = Describe({{3}, {3}, {0}})};
    setup.params[0].param_dtype = setup.params[1].out_dtype = Dtype::kF64;
    setup.params[0].out_dtype = Dtype::kBf16;
    return setup;
  }
  // Checks an export. Both nonempty parameters start at `memory + 8`. The pointer `weights[p]` is `at[p]` bytes after
  // `memory + 8`, or NULL if `at` has no element p. At `weights[p]`, the export would store the average of parameter p
  // in the dtype of the parameter's output.
  Status Check(std::vector<int> at) {
    std::vector<void*> weights(3);
    char* const param = reinterpret_cast<char*>(memory + 8);
    for (size_t p = 0; p < at.size(); ++p) weights[p] = param + at[p];
    return CheckExport({plan(), state(), bound, history()}, weights);
  }

  alignas(8) float memory[32] = {};
  BoundBuffers bound;
};

TEST_CASE("weights must not overlap their parameter, which may have another dtype") {
  TwoDtypes two;
  CheckOk(two.Check({24, 16}));
  CheckOk(two.Check({-6, -24}));
  for (const int at : {22, 0, -4}) {
    CheckError(two.Check({at}), Code::kInvalid, "weights[0] overlaps the parameter \"p0\"");
  }
  for (const int at : {8, 0, -16}) {
    CheckError(two.Check({24, at}), Code::kInvalid, "weights[1] overlaps the parameter \"p1\"");
  }
  CheckOk(two.Check({24, 16, 0}));
}

TEST_CASE("weights must be aligned for their dtype") {
  TwoDtypes two;
  CheckError(two.Check({25}), Code::kInvalid,
             "weights[0]: the memory is not aligned: expected an address that is a multiple of 2");
  CheckError(two.Check({24, 20}), Code::kInvalid,
             "weights[1]: the memory is not aligned: expected an address that is a multiple of 8");
  CheckOk(two.Check({26, 16, 1}));
}

}  // namespace
}  // namespace shampoo
