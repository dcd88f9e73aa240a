// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "small_model.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

const Keys kEveryState = "grafting=adam momentum=0.5 weight_decay=0.125 beta2=0.5 use_merge_dims=false";

void StepWell(BoundModel* model, int seed) {
  model->FillGradients(seed);
  RequireOk(model->TryStep());
}

TEST_CASE("a step with NaN or infinity in a gradient fails and leaves parameters and state unchanged") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const int32_t dtype : {SHAMPOO_F32 + 0, SHAMPOO_F64 + 0, SHAMPOO_F16 + 0, SHAMPOO_BF16 + 0}) {
    CAPTURE(dtype);
    BoundModel model(kEveryState, dtype);
    BoundModel other(kEveryState, dtype);  // the gradients of this model are always finite
    int seed = 1;
    const auto both = [&] {
      StepWell(&model, seed);
      StepWell(&other, seed);
      ++seed;
      CHECK(model.Everything() == other.Everything());
    };
    both();
    for (size_t p = 0; p < 2; ++p) {
      for (const size_t at : {size_t{0}, size_t{3}, SmallModel::kElements[p] - 1}) {
        for (const double bad : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
          CAPTURE_ALL(p, at, bad);
          model.FillGradients(seed);
          model.tensors[p].g.Set(at, bad);
          const std::string name = SmallModel::kNames[p];
          CheckStepFails(&model, SHAMPOO_E_NUMERIC,
                         {"parameter \"" + name + "\"", std::isnan(bad) ? "NaN" : "infinity",
                          "element " + Text(at) + " ", "block " + name + "/", "the step has changed nothing"});
        }
      }
      both();
    }
  }
}

TEST_CASE("the error names the first element that is not finite and its block") {
  BoundModel model("use_merge_dims=false");
  model.tensors[1].g.Set(4, NAN);
  model.tensors[0].g.Set(24, INFINITY);  // row 4, column 4, in the last of four blocks
  model.tensors[0].g.Set(29, NAN);
  CheckStepFails(&model, SHAMPOO_E_NUMERIC, {"\"weight\"", "infinity", "element 24 ", "block weight/3"});
  CHECK(std::string(shampoo_last_error()).find("NaN") == std::string::npos);
}

TEST_CASE("a gradient that would make a factor matrix overflow is rejected") {
  BoundModel model(kEveryState);
  BoundModel other(kEveryState);
  model.FillGradients(1);
  model.tensors[1].g.Set(2, 1e25);
  CheckStepFails(&model, SHAMPOO_E_NUMERIC,
                 {"\"bias\"", "too large", "overflow f32", "block bias/0", "the step has changed nothing"});
  StepWell(&model, 2);
  StepWell(&other, 2);
  CHECK(model.Everything() == other.Everything());

  BoundModel wide(kEveryState, SHAMPOO_F64);
  wide.tensors[1].g.Set(2, 1e25);
  CHECK(wide.TryStep() == SHAMPOO_OK);
  wide.tensors[1].g.Set(2, -1e200);
  CheckStepFails(&wide, SHAMPOO_E_NUMERIC, {"\"bias\"", "overflow f64"});
}

TEST_CASE(
    "with coupled weight decay, the error of a step names the parameter that has NaN or would make a state overflow") {
  BoundModel model("weight_decay=1 weight_decay_type=coupled");
  model.tensors[1].w.Set(3, 1e25);
  CheckStepFails(&model, SHAMPOO_E_NUMERIC, {"\"bias\"", "overflow f32", "element 3 ", "the step has changed nothing"});
  model.tensors[1].w.Set(3, NAN);
  CheckStepFails(&model, SHAMPOO_E_NUMERIC, {"parameter \"bias\" has NaN", "element 3 ", "block bias/0"});
  model.tensors[1].w.Set(3, 1);
  CHECK(model.TryStep() == SHAMPOO_OK);
}

TEST_CASE("a float64 gradient beyond the range of float32 is rejected unless gradient_scale makes it fit") {
  BoundModel model("computation_dtype=f32", SHAMPOO_F64);
  model.tensors[1].g.Set(3, 1e39);
  CheckStepFails(&model, SHAMPOO_E_NUMERIC, {"\"bias\"", "overflow f32", "element 3 ", "1e+39"});
  RequireOk(shampoo_optimizer_set(model.get(), 0, "gradient_scale", 1e-39));
  RequireOk(model.TryStep());
  CHECK(model.IsFinite());
}

TEST_CASE("a step is rejected before a growing factor matrix overflows its dtype") {
  BoundModel model("factor_dtype=f16");
  model.FillGradients(1);
  model.tensors[1].g.Set(2, 150);  // each step adds 150^2 to an element of factor.0; the largest f16 is 65504
  for (int step = 0; step < 2; ++step) RequireOk(model.TryStep());
  CheckStepFails(&model, SHAMPOO_E_NUMERIC,
                 {"\"bias\"", "factor.0 would overflow f16", "element 2 ", "wider factor_dtype"});
  StepWell(&model, 2);
}

TEST_CASE(
    "the overflow check of a factor matrix adds the squares of one row of the gradient, and not those of all rows") {
  BoundModel model("factor_dtype=f16 use_merge_dims=false");
  model.FillGradients(1);
  // The four large elements are in different rows and columns. The square of each fits f16. The sum of the four squares
  // does not.
  for (size_t i = 0; i < 4; ++i) model.tensors[0].g.Set(i * 7, 200);
  CHECK(model.TryStep() == SHAMPOO_OK);
}

TEST_CASE(
    "a step fails if the grafting sum of adagrad would overflow and succeeds if the grafting average of adam fits its "
    "dtype") {
  const Keys narrow = "grafting_dtype=f16 beta2=0.5 beta1=0";
  BoundModel sum(narrow + "grafting=adagrad");
  sum.FillGradients(1);
  sum.tensors[1].g.Set(2, 200);  // each step adds 40000 to the sum
  RequireOk(sum.TryStep());
  CheckStepFails(&sum, SHAMPOO_E_NUMERIC,
                 {"\"bias\"", "grafting state would overflow f16", "element 2 ", "grafting_dtype"});
  BoundModel average(narrow + "grafting=adam");
  average.tensors[1].g.Set(2, 300);  // 300^2 does not fit f16, but the step adds only 300^2 / 1000 to the average
  CHECK(average.TryStep() == SHAMPOO_OK);
}

TEST_CASE("a gradient and a coupled decay that cancel each other are rejected if both are too large") {
  BoundModel model("gradient_scale=10 weight_decay=10 weight_decay_type=coupled");
  model.tensors[1].g.Set(3, 3e38);
  model.tensors[1].w.Set(3, -3e38);
  CheckStepFails(&model, SHAMPOO_E_NUMERIC, {"\"bias\"", "overflow f32"});
}

TEST_CASE("a gradient and a coupled decay that cancel each other are rejected if their rounding error is too large") {
  const auto param = 3e34F;
  const auto grad = -7.77e33F;
  // In float64, grad and decay * param cancel each other. In float32, the rounding error of decay * param is 6e26.
  // A factor matrix in float32 cannot hold the square of this error.
  const double decay = -static_cast<double>(grad) / static_cast<double>(param);
  BoundModel model("weight_decay_type=coupled weight_decay=" + Text(decay));
  model.tensors[1].w.Set(3, static_cast<double>(param));
  model.tensors[1].g.Set(3, static_cast<double>(grad));
  CheckStepFails(&model, SHAMPOO_E_NUMERIC, {"\"bias\"", "overflow f32"});
  model.tensors[1].w.Set(3, 3e24);
  model.tensors[1].g.Set(3, -7.77e23);
  CHECK(model.TryStep() == SHAMPOO_OK);
}

TEST_CASE("a block whose momentum would overflow its dtype is unchanged, counted, and reported by the next step") {
  // Element 2 is by far the largest element of the gradient of the bias, and grafting gives the direction the norm of
  // the gradient. Element 2 of the direction is therefore nearly 60000. In the third step, the momentum of element 2
  // would become 0.9 * 60000 + 60000, but the largest number of f16 is 65504.
  BoundModel model("momentum=0.9 momentum_dtype=f16 beta1=0 grafting=sgd use_merge_dims=false");
  StepWell(&model, 1);
  model.tensors[1].g.Set(2, 60000);
  const auto other = model.tensors[0].w.bytes();
  RequireOk(model.TryStep());
  CHECK(model.Stat("nonfinite_blocks") == 0);
  RequireOk(model.TryStep());
  CHECK(model.Stat("nonfinite_blocks") == 1);
  const std::vector<char>& out = model.tensors[1].out.bytes();
  CHECK(std::equal(out.begin(), out.begin() + 16, model.tensors[1].w.bytes().begin()));  // block 0: elements 0 to 3
  CheckStepFails(&model, SHAMPOO_E_NUMERIC,
                 {"direction of block bias/0", "skipped the update of the block", "nothing"});
  StepWell(&model, 2);
  CHECK(model.tensors[0].w.bytes() == other);
}

}  // namespace
}  // namespace shampoo_test
