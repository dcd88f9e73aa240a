// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares the results of the device with those of the CPU, with count_empty_steps=true. A group then also counts empty
// steps: steps in which none of its parameters has a gradient.
#include <cmath>

#include "tests/cuda/against_cpu/course.h"

namespace shampoo_test {
namespace {

// Group 1 has gradients in only a few steps. Group 2 never has gradients, and group 3 has no parameters. In steps 2 and
// 7, no parameter has a gradient.
Course EmptySteps(const Keys& keys, int32_t dtype) {
  Course course{.steps = 12};
  course.spec.keys = Keys("count_empty_steps=true lr=0.1") + keys;
  for (const int32_t group : {0, 0, 1, 1, 2}) {
    course.spec.params.push_back({{5, 4}, dtype, dtype, dtype});
    course.spec.params.back().group = group;
  }
  course.spec.params[3].shape = {6};
  course.spec.params[3].in_place = false;
  course.spec.groups = {{{"lr", "0.2"}}, {}, {}};
  course.has_gradient = [](int64_t t, size_t p) {
    if (t == 2 || t == 7 || p == 4) return false;
    return p < 2 || (t % 3 == 0 && (p == 2 || t == 9));
  };
  return course;
}

void CheckEmptySteps(const Keys& keys, int32_t dtype = SHAMPOO_F64) {
  CAPTURE(keys);
  const Course course = EmptySteps(keys, dtype);
  const std::string method = keys[0].second;
  const bool has_bases = method == "soap" || method == "kl_shampoo";
  CHECK((has_bases ? DifferenceWithoutSigns(course) : Difference(course)) == "");
  const Results results = Run(course, SHAMPOO_CUDA);
  for (const char* group : {"group.0/step", "group.1/step", "group.2/step", "group.3/step"}) {
    CHECK(results.Of(group) == std::vector<double>{12});
  }
}

const Keys kWithRoots = "method=shampoo epsilon=1e-2 use_merge_dims=false";
const Keys kRefreshes = "precondition_frequency=2";

TEST_CASE("elementwise methods with groups that count empty steps take the same steps as on the CPU") {
  for (const int32_t dtype : {SHAMPOO_F64, SHAMPOO_F32}) {
    CheckEmptySteps({{"method", "adam"}, {"weight_decay", "0.1"}, {"use_nesterov", "true"}}, dtype);
    CheckEmptySteps({{"method", "adam"}, {"weight_decay", "0.1"}, {"weight_decay_type", "independent"}}, dtype);
    CheckEmptySteps({{"method", "sgd"}, {"momentum", "0.9"}, {"weight_decay", "0.1"}, {"use_bias_correction", "true"}},
                    dtype);
    CheckEmptySteps({{"method", "rmsprop"}, {"weight_decay", "0.1"}, {"weight_decay_type", "coupled"}}, dtype);
  }
  CheckEmptySteps({{"method", "adam"}, {"norm_control", "hyperball"}});
}

TEST_CASE("with groups that count empty steps, roots are refreshed in the same steps as on the CPU") {
  const Keys spread = "root_spread=true precondition_frequency=3";
  const Keys async = "root_async=2 precondition_frequency=4";
  for (const Keys& more :
       {kRefreshes, spread, async, async + Keys("root_device=host"), kRefreshes + Keys("root_method=newton"),
        kRefreshes + Keys("factor_update_frequency=2 trace_scaling=0.5"),
        Keys("start_preconditioning_step=5 refresh_growth=0.5")}) {
    CheckEmptySteps(kWithRoots + Keys("beta2=0.9 grafting=adam momentum=0.9") + more);
    CheckEmptySteps(kWithRoots + Keys("beta2=0.9 weight_decay=0.1") + more);
  }
}

TEST_CASE("with groups that count empty steps, soap and kl_shampoo count the gradients of each block as on the CPU") {
  CheckEmptySteps(Keys("method=soap") + kRefreshes);
  CheckEmptySteps(Keys("method=soap factor_correction=kl") + kRefreshes);
  CheckEmptySteps(Keys("method=soap basis_order=before factor_update_frequency=2") + kRefreshes);
  CheckEmptySteps(Keys("method=kl_shampoo momentum=0.5") + kRefreshes);
}

TEST_CASE(
    "muon with groups that count empty steps takes the same steps as on the CPU, also for the parameters that adam "
    "updates") {
  const Keys muon = "method=muon adam_lr=0.02 weight_decay=0.1 precondition_math=f32";
  CheckEmptySteps(muon);
  CheckEmptySteps(muon + Keys("second_moment=row start_preconditioning_step=4 grafting=adam"));
}

TEST_CASE("averages advance in empty steps as on the CPU") {
  for (const Keys& average :
       {Keys("weight_ema=0.75"), Keys("weight_ema=0.9 weight_ema_start=4"), Keys("averaging=schedule_free"),
        Keys("averaging=gpa average_train=0.7 average_eval=0.6")}) {
    CheckEmptySteps(Keys("method=sgd") + average);
    CheckEmptySteps(Keys("method=adam weight_decay=0.1") + average);
    CheckEmptySteps(Keys("method=muon adam_lr=0.02 precondition_math=f32") + average);
  }
}

TEST_CASE("with output=updates, the outputs of a group are 0 in its empty steps") {
  Course course = EmptySteps({{"method", "adam"}, {"output", "updates"}}, SHAMPOO_F64);
  for (ParamSpec& param : course.spec.params) param.in_place = false;
  CHECK(Difference(course) == "");
}

TEST_CASE("a group without gradients counts a step with a skipped block, but not a step that is skipped as a whole") {
  for (const char* choice : {"skip_step", "skip_block"}) {
    CAPTURE(std::string(choice));
    Course course = EmptySteps({{"method", "adam"}, {"on_nonfinite", choice}, {"weight_ema", "0.5"}}, SHAMPOO_F64);
    course.before = [](int64_t t, Model* model) {
      if (t == 4) model->SpoilGradient(1, 2, NAN);
    };
    CHECK(Difference(course) == "");
    const double steps = std::string(choice) == "skip_step" ? 11 : 12;
    CHECK(Run(course, SHAMPOO_CUDA).Of("group.2/step") == std::vector<double>{steps});
  }
}

TEST_CASE("a step is rejected as on the CPU if the step counter of a group without gradients is invalid") {
  std::string texts[2];
  for (const int32_t device : {SHAMPOO_CPU, SHAMPOO_CUDA}) {
    ModelSpec spec = EmptySteps({{"method", "adam"}, {"status_lag", "0"}}, SHAMPOO_F64).spec;
    spec.device_type = device;
    Model model(spec);
    for (size_t p = 2; p < 5; ++p) model.DropGradient(p, true);
    model.Step(1);
    model.SetState("group.2/step", {-5});
    model.FillGradients(2);
    const std::string before = model.Bits();
    CheckError(model.TryStep(), SHAMPOO_E_STATE, "the state \"group.2/step\" is -5");
    texts[device == SHAMPOO_CUDA ? 1 : 0] = shampoo_last_error();
    CHECK(model.Bits() == before);
    model.SetState("group.2/step", {1});
    model.Step(2);
    CHECK(model.State("group.2/step") == std::vector<double>{2});
  }
  CHECK(texts[0] == texts[1]);
}

}  // namespace
}  // namespace shampoo_test
