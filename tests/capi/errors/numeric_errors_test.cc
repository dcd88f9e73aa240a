// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "small_model.h"

namespace shampoo_test {
namespace {

const Values kEveryState = {{"grafting", "adam"},
                            {"momentum", "0.5"},
                            {"weight_decay", "0.125"},
                            {"beta2", "0.5"},
                            {"use_merge_dims", "false"}};

void StepWell(SmallModel* model, int seed) {
  model->FillGradients(seed);
  REQUIRE_OK(shampoo_optimizer_step(model->get(), nullptr));
}

TEST_CASE("NaN or infinity in a gradient fails the step, which then has changed nothing") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const int32_t dtype : {SHAMPOO_F32 + 0, SHAMPOO_F64 + 0, SHAMPOO_F16 + 0, SHAMPOO_BF16 + 0}) {
    CAPTURE(dtype);
    SmallModel model(kEveryState, dtype);
    SmallModel other(kEveryState, dtype);  // never sees a bad gradient
    model.Bind();
    other.Bind();
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
        for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity}) {
          CAPTURE(p);
          CAPTURE(at);
          CAPTURE(bad);
          model.FillGradients(seed);
          model.grad[p].Set(at, bad);
          const auto before = model.Everything();
          CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_NUMERIC,
                      {"parameter \"" + std::string(SmallModel::kNames[p]) + "\"", std::isnan(bad) ? "NaN" : "infinity",
                       "element " + Text(at) + " ", "block " + std::string(SmallModel::kNames[p]) + "/",
                       "nothing has changed"});
          CHECK(std::string(shampoo_optimizer_error(model.get())) == shampoo_last_error());
          CHECK(model.Everything() == before);
        }
      }
      both();
    }
  }
}

TEST_CASE("the first bad element is told, with its block") {
  SmallModel model(Values{{"use_merge_dims", "false"}});
  model.Bind();
  model.grad[1].Set(4, NAN);
  model.grad[0].Set(24, INFINITY);  // row 4, column 4: the last of four blocks
  model.grad[0].Set(29, NAN);
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_NUMERIC,
              {"\"weight\"", "infinity", "element 24 ", "block weight/3"});
  CHECK(std::string(shampoo_last_error()).find("NaN") == std::string::npos);
}

TEST_CASE("a gradient whose factor matrices would overflow is refused") {
  SmallModel model(kEveryState);
  SmallModel other(kEveryState);
  model.Bind();
  other.Bind();
  const auto before = model.Everything();
  model.FillGradients(1);
  model.grad[1].Set(2, 1e25);
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_NUMERIC,
              {"\"bias\"", "too large", "overflow f32", "block bias/0", "nothing has changed"});
  CHECK(model.Everything() == before);
  StepWell(&model, 2);
  StepWell(&other, 2);
  CHECK(model.Everything() == other.Everything());

  SmallModel wide(kEveryState, SHAMPOO_F64);
  wide.Bind();
  wide.grad[1].Set(2, 1e25);
  CHECK(shampoo_optimizer_step(wide.get(), nullptr) == SHAMPOO_OK);
  wide.grad[1].Set(2, -1e200);
  CHECK_ERROR(shampoo_optimizer_step(wide.get(), nullptr), SHAMPOO_E_NUMERIC, {"\"bias\"", "overflow f64"});
}

TEST_CASE("coupled weight decay counts towards an overflow, and a NaN parameter is told as such") {
  SmallModel model(Values{{"weight_decay", "1"}, {"weight_decay_type", "coupled"}});
  model.Bind();
  model.param[1].Set(3, 1e25);
  auto before = model.Everything();
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_NUMERIC,
              {"\"bias\"", "overflow f32", "element 3 ", "nothing has changed"});
  CHECK(model.Everything() == before);
  model.param[1].Set(3, NAN);
  before = model.Everything();
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_NUMERIC,
              {"parameter \"bias\" has NaN", "element 3 ", "block bias/0"});
  CHECK(model.Everything() == before);
  model.param[1].Set(3, 1);
  CHECK(shampoo_optimizer_step(model.get(), nullptr) == SHAMPOO_OK);
}

TEST_CASE("a float64 gradient beyond float32 is refused, unless its scaled value fits") {
  SmallModel model(Values{{"computation_dtype", "f32"}}, SHAMPOO_F64);
  model.Bind();
  model.grad[1].Set(3, 1e39);
  const auto before = model.Everything();
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_NUMERIC,
              {"\"bias\"", "overflow f32", "element 3 ", "1e+39"});
  CHECK(model.Everything() == before);
  REQUIRE_OK(shampoo_optimizer_set(model.get(), 0, "gradient_scale", 1e-39));
  REQUIRE_OK(shampoo_optimizer_step(model.get(), nullptr));
  const std::vector<std::vector<char>> state = ReadState(model.get());
  for (const auto& entry : state) {
    float value = 0;
    for (size_t i = 0; i + sizeof value <= entry.size(); i += sizeof value) {
      std::memcpy(&value, entry.data() + i, sizeof value);
      CHECK(std::isfinite(value));
    }
  }
}

TEST_CASE("a factor that would outgrow its dtype over steps is refused before it does") {
  SmallModel model(Values{{"factor_dtype", "f16"}});
  model.Bind();
  model.FillGradients(1);
  model.grad[1].Set(2, 150);  // 22500 more at each step; f16 ends at 65504
  for (int step = 0; step < 2; ++step) REQUIRE_OK(shampoo_optimizer_step(model.get(), nullptr));
  const auto before = model.Everything();
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_NUMERIC,
              {"\"bias\"", "factor.0 would overflow f16", "element 2 ", "wider factor_dtype"});
  CHECK(model.Everything() == before);
  StepWell(&model, 2);
}

TEST_CASE("a factor is refused for its largest row, not for the sum of all of them") {
  SmallModel model(Values{{"factor_dtype", "f16"}, {"use_merge_dims", "false"}});
  model.Bind();
  model.FillGradients(1);
  for (size_t i = 0; i < 4; ++i) model.grad[0].Set(i * 7, 200);  // a diagonal: |G|^2 is beyond f16, no row is
  CHECK(shampoo_optimizer_step(model.get(), nullptr) == SHAMPOO_OK);
}

TEST_CASE("the scale of the gradients counts towards an overflow") {
  SmallModel model(Values{{"gradient_scale", "1e30"}});
  model.Bind();
  const auto before = model.Everything();
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_NUMERIC, {"\"weight\"", "overflow f32"});
  CHECK(model.Everything() == before);
  REQUIRE_OK(shampoo_optimizer_set(model.get(), 0, "gradient_scale", 1));
  CHECK(shampoo_optimizer_step(model.get(), nullptr) == SHAMPOO_OK);
}

}  // namespace
}  // namespace shampoo_test
