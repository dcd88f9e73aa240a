// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_context.h"

#include "core/plan/cost.h"
#include "tests/core/context_fixture.h"
#include "tests/core/log_capture.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

using Floats = std::vector<float>;

// A rank whose steps are plain gradient descent.
struct Descent : ContextFixture {
  using ContextFixture::ContextFixture;
  explicit Descent(const std::vector<std::vector<int64_t>>& shapes, const OptionKeys& keys = {},
                   Placement placement = {})
      : ContextFixture(kPlainDescent + keys, shapes, placement) {}

  void Compute() {
    context.Compute(context.items());
    context.Finish(true);
  }
  void Step() {
    CheckOk(List());
    context.Begin();
    Compute();
  }
};

TEST_CASE("the parameters with a gradient take part in a step, and their groups are active") {
  Descent descent(StepFixture::TwoGroups(kPlainDescent, kPlainDescent, {{2, 2}, {2, 2}, {2, 2}}));
  descent.Bind(1, nullptr);
  descent.Bind(2, nullptr);
  CheckOk(descent.List());
  const std::vector<Param>& params = descent.plan().params;
  CHECK(descent.context.participants().Contains(params[0]));
  CHECK(!descent.context.participants().Contains(params[1]));
  CHECK(descent.context.group(0).active);
  CHECK(!descent.context.group(1).active);
  CHECK(descent.context.items().size() == 1);

  descent.context.Activate(1, 5);
  CHECK(descent.context.group(1).active);
  CHECK(descent.context.group(1).program.t == 5);
}

TEST_CASE("a step processes large blocks in the order of decreasing cost, and then small blocks in plan order") {
  Descent descent({{2, 2}, {100, 90}, {3, 3}, {200, 190}});
  REQUIRE(StepCost(descent.plan().blocks[1]) > kCostOfSmallBlock);
  CheckOk(descent.List());
  CHECK(descent.BlocksOf(descent.context.items()) == std::vector<int64_t>{3, 1, 0, 2});
  CHECK(descent.context.ItemOf(1).block == &descent.plan().blocks[1]);
}

TEST_CASE("an invalid step counter is an error") {
  for (const int64_t counter : {int64_t{-1}, kStepLimit, INT64_MAX}) {
    Descent descent({{2, 2}});
    CheckOk(descent.state().WriteSteps(0, counter));
    CheckError(descent.List(), Code::kState, Cat("the state \"group.0/step\" is ", counter));
  }
}

TEST_CASE("a step updates the parameters and is counted") {
  Descent descent({{2, 2}});
  descent.Step();
  CHECK(descent.params[0] == Floats(4, 0.5F));
  CHECK(descent.steps() == 1);
  CHECK(descent.history().counts().steps == 1);
  CHECK(!descent.state().is_initial());
  descent.Step();
  CHECK(descent.params[0] == Floats(4, 0.0F));
  CHECK(descent.steps() == 2);
}

TEST_CASE("a step uses the bound scalars and stores their values") {
  Descent descent({{2, 2}});
  float lr = 0.25F;
  float scale = 2;
  HyperParameters& hyper_parameters = descent.state().hyper_parameters();
  CheckOk(hyper_parameters.Bind(0, "lr", static_cast<int>(Dtype::kF32), &lr));
  CheckOk(hyper_parameters.Bind(0, "gradient_scale", static_cast<int>(Dtype::kF32), &scale));
  descent.Step();
  CHECK(descent.params[0] == Floats(4, 0.5F));
  CHECK(hyper_parameters.settings(0).lr == 0.25);
}

TEST_CASE("a parameter without a gradient is copied to its output, and the step counter of its group is unchanged") {
  Descent descent(StepFixture::TwoGroups(kPlainDescent, kPlainDescent, {{2, 2}, {2, 2}}));
  Floats out(4, 9.0F);
  descent.Bind(1, nullptr, out.data());
  CheckOk(descent.state().WriteSteps(1, 6));
  descent.Step();
  CHECK(out == Floats(4, 1.0F));
  CHECK(descent.params[0] == Floats(4, 0.5F));
  CHECK(descent.steps(0) == 1);
  CHECK(descent.steps(1) == 6);
}

TEST_CASE(
    "an excluded block keeps its state and is counted in nonfinite_blocks, and its parameter is copied to the output") {
  Descent descent({{2, 2}, {2, 2}}, "momentum=0.5");
  Floats out(4, 9.0F);
  descent.Bind(0, descent.gradients[0].data(), out.data());
  CheckOk(descent.List());
  descent.context.Exclude(descent.context.ItemOf(0));
  descent.context.Begin();
  CHECK(descent.context.items().size() == 1);
  descent.Compute();
  CHECK(out == Floats(4, 1.0F));
  CHECK(descent.params[1] == Floats(4, 0.5F));
  CHECK(descent.StateOf("p0/0/momentum")[0] == 0);
  CHECK(descent.StateOf("p1/0/momentum")[0] == 1);
  CHECK(descent.history().counts().nonfinite_blocks == 1);
  CHECK(descent.history().counts().steps == 1);
  CHECK(descent.steps() == 1);

  descent.context.ClearExcluded();
  descent.Step();
  CHECK(out == Floats(4, 0.5F));
}

TEST_CASE("BeginWithExcluded keeps the StepItem of each excluded block and marks the update of the block as skipped") {
  Descent descent({{2, 2}, {2, 2}});
  CheckOk(descent.List());
  descent.context.Exclude(descent.context.ItemOf(1));
  descent.context.BeginWithExcluded();
  CHECK(descent.context.items().size() == 2);
  CHECK(!descent.context.ItemOf(0).skip_update);
  CHECK(descent.context.ItemOf(1).skip_update);
  descent.Compute();
  CHECK(descent.params[1] == Floats(4, 1.0F));
  CHECK(descent.context.update_skipped()[0] == 0);
  CHECK(descent.context.update_skipped()[1] == 1);
  CHECK(descent.history().counts().nonfinite_blocks == 1);
}

TEST_CASE("a skipped step copies the state and all parameters to their outputs, and is not counted as a step") {
  Descent descent({{2, 2}});
  CallerArena out(descent.plan().state_bytes());
  const char* const in = descent.state().in();
  CheckOk(descent.state().WriteSteps(0, 3));
  CheckOk(descent.state().Bind(in, out.data()));
  Floats written(4, 9.0F);
  descent.Bind(0, descent.gradients[0].data(), written.data());
  CheckOk(descent.List());
  descent.context.Exclude(descent.context.ItemOf(0));
  descent.context.FinishSkipped();
  CHECK(std::memcmp(in, out.data(), static_cast<size_t>(descent.plan().state_bytes())) == 0);
  CHECK(descent.steps() == 3);
  CHECK(written == Floats(4, 1.0F));
  CHECK(descent.history().counts().skipped_steps == 1);
  CHECK(descent.history().counts().steps == 0);
  CHECK(descent.history().counts().nonfinite_blocks == 1);
}

TEST_CASE(
    "if the update of a block would be infinite, the block is unchanged, and an error follows only with "
    "on_nonfinite=error") {
  for (const char* const choice : {"error", "skip_block"}) {
    Descent descent({{2, 2}, {2, 2}}, Cat("lr=1e30 on_nonfinite=", choice));
    descent.gradients[0][0] = 1e10F;
    const LogCapture log;
    descent.Step();
    CHECK(descent.params[0] == Floats(4, 1.0F));
    CHECK(descent.params[1] == Floats(4, -1e30F));
    CHECK(descent.context.update_skipped()[0] == 1);
    CHECK(descent.context.update_skipped()[1] == 0);
    CHECK(descent.history().counts().nonfinite_blocks == 1);
    CHECK(log.messages().size() == 1);
    const Status raised = descent.history().RaiseSkippedUpdate(descent.state().hyper_parameters());
    CHECK(raised.ok() == (std::string(choice) == "skip_block"));
  }
}

TEST_CASE("ItemsOfBucket returns the items of all blocks of a bucket, or only of those that this rank owns") {
  Descent descent({{2, 2}, {2, 2}, {2, 2}, {2, 2}}, "comm_bucket_bytes=1", ReplicaPlacement(1, 2));
  REQUIRE(descent.plan().bucket_count == 2);
  CheckOk(descent.List());
  for (int64_t bucket = 0; bucket < 2; ++bucket) {
    for (const bool only_owned : {false, true}) {
      const auto items = descent.context.ItemsOfBucket(bucket, only_owned);
      CHECK(items.size() == (only_owned ? 1 : 2));
      for (const StepItem& item : items) {
        CHECK(item.block->bucket == bucket);
        CHECK((!only_owned || descent.plan().Owns(*item.block)));
      }
    }
  }
}

TEST_CASE("the statistic root_computed counts each root once for each step that refreshes it") {
  Descent descent({{2, 3}}, "refresh_growth=0.1 precondition_frequency=2");
  double computed = -1;
  for (const double expected : {2.0, 4.0}) {
    descent.Step();
    descent.context.RecordRoots();
    CHECK(descent.history().Stat("root_computed", &computed));
    CHECK(computed == expected);
  }
}

TEST_CASE(
    "unless it is skipped, a step adds the coefficient of its iterate in the average to the state lr_sum of every "
    "block") {
  Descent descent({{2, 2}, {2, 2}}, "averaging=schedule_free average_lr_power=1");
  descent.Bind(1, nullptr);
  const auto lr_sum = [&](size_t block) {
    return *reinterpret_cast<double*>(descent.state().out() + descent.plan().blocks[block].lr_sum.offset);
  };
  for (const double sum : {0.5, 1.0}) {
    descent.Step();
    CHECK(lr_sum(0) == sum);
    CHECK(lr_sum(1) == sum);
  }
  CheckOk(descent.List());
  descent.context.FinishSkipped();
  CHECK(lr_sum(0) == 1);
}

TEST_CASE("the average of weight_ema advances in every step, also in blocks that are not updated") {
  Descent descent({{2, 2}, {2, 2}}, "weight_ema=0.5");
  descent.Bind(1, nullptr);
  CheckOk(descent.state().WriteSteps(0, 1));  // the average starts after step 1 (weight_ema_start)
  for (int i = 0; i < 4; ++i) descent.StateOf("p1/0/ema_offset")[i] = 8;
  descent.Step();
  CHECK(descent.params[0][0] == 0.5);
  CHECK(descent.StateOf("p0/0/ema_offset")[0] == 0.25);  // weight_ema (0.5) times the decrease of the parameter (0.5)
  CHECK(descent.StateOf("p1/0/ema_offset")[3] == 4);
  CheckOk(descent.List());
  descent.context.FinishSkipped();
  CHECK(descent.StateOf("p0/0/ema_offset")[0] == 0.125);
  CHECK(descent.StateOf("p1/0/ema_offset")[3] == 2);
}

TEST_CASE("an invalid count of gradients is an error") {
  ContextFixture fixture("method=soap", {{2, 2}});
  CheckOk(fixture.List());
  auto* const count =
      reinterpret_cast<int64_t*>(fixture.state().out() + fixture.plan().blocks[0].gradient_count.offset);
  *count = -1;
  CheckError(fixture.List(), Code::kState, "the state \"p0/0/gradient_count\" is -1");
}

TEST_CASE("parameters that method muon cannot orthogonalize are updated with method adam") {
  ContextFixture fixture("method=muon", {{4, 4}, {5}});
  CheckOk(fixture.List());
  StepContext& context = fixture.context;
  CHECK(context.ItemOf(0).program->settings->method == Method::kMuon);
  CHECK(context.ItemOf(1).program->settings->method == Method::kAdam);
  CHECK(context.ItemOf(1).program->t == 1);
}

}  // namespace
}  // namespace shampoo
