// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "core/step/gradient_checker.h"
#include "core/step/scan_spans.h"
#include "tests/core/context_fixture.h"
#include "tests/core/log_capture.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A GradientChecker for two matrices. The first matrix is divided into two blocks. Roots are refreshed in every step.
struct Checked : ContextFixture {
  explicit Checked(const OptionKeys& keys = {}, bool defers_state_errors = false)
      : ContextFixture(
            "max_preconditioner_dim=4 use_merge_dims=false beta1=0 beta2=1 grafting=none precondition_frequency=1" +
                keys,
            {{2, 8}, {2, 4}}),
        checker(inputs(), backend().get(), defers_state_errors) {
    gradients[0].assign(16, 1.0F);
  }

  Status CheckGradients() {
    CheckOk(List());
    result = {};
    return checker.CheckGradients(&context, &result);
  }
  // Checks the factor matrices of the blocks that take part in a step.
  Status CheckFactors() {
    CheckOk(List());
    return checker.CheckFactors(context.items());
  }
  // Returns the numbers of the excluded blocks.
  std::vector<int64_t> Excluded() { return BlocksOf(context.excluded()); }

  GradientChecker checker;
  CheckResult result;
};

using BlockNumbers = std::vector<int64_t>;

TEST_CASE("ordinary gradients pass, and nothing is excluded") {
  Checked checked;
  CheckOk(checked.CheckGradients());
  CHECK(checked.Excluded().empty());
  CHECK(!checked.result.skip_step);
  CHECK(checked.result.messages.empty());
}

TEST_CASE("a gradient that is not finite is an error that names the element and its block") {
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    Checked checked;
    checked.gradients[0][13] = value;
    const Status status = checked.CheckGradients();
    CheckError(status, Code::kNumeric, "the gradient of parameter \"p0\" has ");
    CheckError(status, Code::kNumeric, std::isnan(value) ? "has NaN" : "has an infinity");
    CheckError(status, Code::kNumeric, "at element 13 (block p0/1); the step has changed nothing");
  }
}

TEST_CASE("with on_nonfinite=skip_block, only the affected blocks are excluded") {
  Checked checked("on_nonfinite=skip_block");
  checked.gradients[0][13] = kNan;
  checked.gradients[1][0] = kInfinity;
  const LogCapture log;
  CheckOk(checked.CheckGradients());
  CHECK(checked.Excluded() == BlockNumbers{1, 2});
  CHECK(!checked.result.skip_step);
  REQUIRE(checked.result.messages.size() == 2);
  CHECK(checked.result.messages[0] ==
        "a block is skipped: the gradient of parameter \"p0\" has NaN at element 13 (block p0/1)");
  CHECK(log.messages().empty());  // not logged yet, because a later check may reject the step
  checked.result.LogMessages();
  CHECK(log.messages().size() == 2);

  checked.gradients[0][13] = checked.gradients[1][0] = 1;
  CheckOk(checked.CheckGradients());
  CHECK(checked.Excluded().empty());
}

TEST_CASE("with on_nonfinite=skip_step, the step is skipped, and only the first block is logged") {
  Checked checked("on_nonfinite=skip_step");
  checked.gradients[0][0] = kNan;
  checked.gradients[1][0] = kNan;
  const LogCapture log;
  CheckOk(checked.CheckGradients());
  CHECK(checked.result.skip_step);
  CHECK(checked.Excluded().size() == 2);
  REQUIRE(checked.result.messages.size() == 1);
  CHECK(checked.result.messages[0].find("a step is skipped: ") == 0);
}

TEST_CASE("a parameter is checked only with coupled weight decay") {
  for (const char* const type : {"decoupled", "coupled"}) {
    Checked checked(Cat("weight_decay=0.5 weight_decay_type=", type));
    checked.params[1][3] = kNan;
    CheckOkIf(std::string(type) == "decoupled", checked.CheckGradients(), Code::kNumeric,
              "parameter \"p1\" has NaN at element 3");
  }
}

TEST_CASE(
    "a gradient passes if the exact check finds no overflow, even if the first scan could not rule out an overflow") {
  Checked checked;
  // Each element of the 4 x 4 factor matrix is a sum of 2 products, and each element of the 2 x 2 factor matrix is a
  // sum of 4 products. The limit for each sum is 1.7e38, half of the largest float32 number.
  checked.gradients[1].assign(8, 0.0F);
  checked.gradients[1][2] = 1e19F;
  CheckOk(checked.CheckGradients());
  checked.gradients[1].assign(8, 1e19F);
  CheckError(checked.CheckGradients(), Code::kNumeric,
             "the gradient of parameter \"p1\" is too large: factor.0 would overflow f32");
}

TEST_CASE("a gradient that would overflow a 16-bit factor matrix is an error that names the dtype of the matrix") {
  Checked checked("factor_dtype=f16");
  checked.gradients[1][0] = 1000;
  CheckError(checked.CheckGradients(), Code::kNumeric, "factor.0 would overflow f16");
  checked.gradients[1][0] = 100;
  CheckOk(checked.CheckGradients());
}

TEST_CASE("a gradient that does not fit the filtered gradient or the grafting state is an error") {
  Checked filtered("beta1=0.9 filtered_grad_dtype=f16");
  filtered.gradients[1][0] = 1e5F;
  CheckError(filtered.CheckGradients(), Code::kNumeric,
             "it would overflow f16; the largest value of the gradient is 1e+05");
  Checked grafted("grafting=rmsprop grafting_beta2=0.5 grafting_dtype=f16");
  grafted.gradients[1][0] = 1000;
  CheckError(grafted.CheckGradients(), Code::kNumeric, "the grafting state would overflow f16");
}

TEST_CASE("the check for overflow includes gradient_scale") {
  Checked checked("gradient_scale=1e10");
  checked.gradients[1][0] = 1e20F;
  CheckError(checked.CheckGradients(), Code::kNumeric, "is too large");
  checked.Set("gradient_scale", 1e-10);
  CheckOk(checked.CheckGradients());
}

// Sets an element of a factor matrix of p1, and the gradient of p1, such that a step would overflow the factor matrix.
void FillFactor(Checked* checked) {
  checked->StateOf("p1/0/factor.0")[0] = 3.3e38F;
  checked->gradients[1].assign(8, 2e18F);
}

TEST_CASE("with on_nonfinite=error, a state that would overflow is an error even if only the owner can detect this") {
  for (const bool defers : {false, true}) {
    Checked checked({}, defers);
    FillFactor(&checked);
    CheckError(checked.CheckGradients(), Code::kNumeric, "factor.0 would overflow f32");
  }
}

TEST_CASE("a block whose state would overflow is excluded, or marked as skipped if only its owner can detect this") {
  for (const bool defers : {false, true}) {
    for (const char* const choice : {"skip_block", "skip_step"}) {
      Checked checked(Cat("on_nonfinite=", choice), defers);
      FillFactor(&checked);
      CheckOk(checked.CheckGradients());
      CHECK(checked.Excluded() == (defers ? BlockNumbers{} : BlockNumbers{2}));
      CHECK(checked.context.ItemOf(2).skip_update == defers);
      CHECK(checked.result.skip_step == (!defers && std::string(choice) == "skip_step"));
    }
  }
}

TEST_CASE("a factor matrix that is not finite is an error if its root is about to be computed") {
  for (const float value : {kNan, kInfinity}) {
    Checked checked;
    checked.StateOf("p1/0/factor.1")[5] = value;
    CheckError(checked.CheckFactors(), Code::kNumeric,
               Cat("the factor matrix p1/0/factor.1 has ", std::isnan(value) ? "NaN" : "an infinity"));
    checked.Bind(1, nullptr);  // the block of p1 does not take part in the step
    CheckOk(checked.CheckFactors());
  }
}

TEST_CASE("a factor matrix is not checked in steps that compute no root from it") {
  Checked checked("refresh_growth=0 precondition_frequency=2");
  checked.StateOf("p1/0/factor.1")[5] = kNan;
  CheckOk(checked.CheckFactors());
  CheckOk(checked.state().WriteSteps(0, 1));
  CHECK(!checked.CheckFactors().ok());
}

TEST_CASE("an inverse root that shares its array with a factor matrix may have any values") {
  ContextFixture fixture("use_merge_dims=false precondition_frequency=1", {{130, 2}});
  const StateEntry& inverse = fixture.EntryOf("p0/0/inverse.0");
  REQUIRE(inverse.form == SymmetricForm::kUpper);
  GradientChecker checker(fixture.inputs(), fixture.backend().get(), false);
  CheckOk(fixture.List());
  float* const shared = fixture.StateOf("p0/0/inverse.0");
  shared[KeptAt(inverse.form, 130, 3, 9)] = kNan;
  CheckOk(checker.CheckFactors(fixture.context.items()));
  shared[KeptAt(SymmetricForm::kLower, 130, 9, 3)] = kNan;
  CheckError(checker.CheckFactors(fixture.context.items()), Code::kNumeric, "the factor matrix p0/0/factor.0 has NaN");
}

TEST_CASE("MayReject checks the gradients without the states, and excludes no block") {
  Checked checked;
  FillFactor(&checked);
  CheckOk(checked.List());
  CHECK(!checked.checker.MayReject(&checked.context));
  for (const float value : {kNan, 1e19F}) {  // 1e19 is finite, but a sum of such squares may overflow
    checked.gradients[1].assign(8, 0.0F);
    checked.gradients[1][2] = value;
    CHECK(checked.checker.MayReject(&checked.context));
    CHECK(checked.Excluded().empty());
  }
}

TEST_CASE(
    "after a scan, CheckGradient checks one block without its states, and FitsState checks the block with its states") {
  Checked checked("on_nonfinite=skip_block", true);
  FillFactor(&checked);
  CheckOk(checked.List());
  // Gathered blocks are checked in this way, one at a time.
  std::vector<StepItem*> items{&checked.context.ItemOf(2)};
  checked.checker.Scan(items);
  CheckOk(checked.checker.CheckGradient(0, items[0], &checked.context, &checked.result));
  CHECK(checked.Excluded().empty());
  const LogCapture log;
  CHECK(!checked.checker.FitsState(0, *items[0]));
  REQUIRE(log.messages().size() == 1);
  CHECK(log.messages()[0].find("a block is skipped: the gradient of parameter \"p1\"") == 0);

  checked.StateOf("p1/0/factor.0")[0] = 0;
  CHECK(checked.checker.FitsState(0, *items[0]));
  checked.gradients[1][0] = kNan;
  checked.checker.Scan(items);
  CheckOk(checked.checker.CheckGradient(0, items[0], &checked.context, &checked.result));
  CHECK(checked.Excluded() == BlockNumbers{2});
  CHECK(!checked.checker.FitsState(0, *items[0]));
}

TEST_CASE("large parameters are scanned in spans, to the last element") {
  ContextFixture fixture(kPlainDescent, {{3 * kScanElements}});
  CHECK(ScanSpans(3 * kScanElements) == 3);
  CHECK(ScanSpans(3 * kScanElements + 1) == 4);
  GradientChecker checker(fixture.inputs(), fixture.backend().get(), false);
  CheckOk(fixture.List());
  CheckResult result;
  CheckOk(checker.CheckGradients(&fixture.context, &result));
  for (const size_t at : {size_t{0}, static_cast<size_t>(kScanElements), fixture.gradients[0].size() - 1}) {
    fixture.gradients[0][at] = kNan;
    CheckError(checker.CheckGradients(&fixture.context, &result), Code::kNumeric, Cat("at element ", at, " "));
    fixture.gradients[0][at] = 1;
  }
}

}  // namespace
}  // namespace shampoo
