// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "small_model.h"

namespace shampoo_test {
namespace {

// A model with bound buffers that has made a step. A failed bind must not change the bindings, so the next step writes
// the same values as in a model without the failure.
struct BoundModel : SmallModel {
  BoundModel() {
    Bind();
    REQUIRE_OK(shampoo_optimizer_step(get(), nullptr));
  }
};

void CheckBindRefused(BoundModel* model, int32_t first, const std::vector<shampoo_buffers>& buffers,
                      std::initializer_list<std::string> words) {
  const auto before = model->Everything();
  CHECK_ERROR(shampoo_optimizer_bind(model->get(), first, static_cast<int32_t>(buffers.size()), buffers.data()),
              SHAMPOO_E_INVALID, words);
  CHECK(std::string(shampoo_optimizer_error(model->get())) == shampoo_last_error());
  CHECK(model->Everything() == before);
}

void CheckStillBound(BoundModel* model) {
  BoundModel other;
  model->FillGradients(9);
  other.FillGradients(9);
  REQUIRE_OK(shampoo_optimizer_step(model->get(), nullptr));
  REQUIRE_OK(shampoo_optimizer_step(other.get(), nullptr));
  CHECK(model->Everything() == other.Everything());
}

TEST_CASE("a step before bind names the parameter that has no buffers") {
  SmallModel model;
  const auto before = model.Everything();
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_STATE,
              {"\"weight\"", "index 0", "shampoo_optimizer_bind"});
  const shampoo_buffers weight = model.Buffers(0);
  REQUIRE_OK(shampoo_optimizer_bind(model.get(), 0, 1, &weight));
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_STATE, {"\"bias\"", "index 1"});
  CHECK(model.Everything() == before);
  model.Bind();
  CHECK(shampoo_optimizer_step(model.get(), nullptr) == SHAMPOO_OK);
}

TEST_CASE("a step rejects NULL and streams") {
  BoundModel model;
  const auto before = model.Everything();
  int stream = 0;
  CHECK_ERROR(shampoo_optimizer_step(nullptr, nullptr), SHAMPOO_E_INVALID, {"opt is NULL"});
  CHECK_ERROR(shampoo_optimizer_step(model.get(), &stream), SHAMPOO_E_INVALID, {"stream is not NULL", "CPU"});
  CHECK(model.Everything() == before);
}

TEST_CASE("bind accepts only indices of the plan's parameters") {
  BoundModel model;
  const shampoo_buffers own = model.Buffers(0);
  const shampoo_buffers bias = model.Buffers(1);
  CheckBindRefused(&model, 2, {own}, {"first is 2", "count 1", "2 parameters"});
  CheckBindRefused(&model, -1, {own}, {"first is -1", "count 1", "2 parameters"});
  CheckBindRefused(&model, 1, {bias, own}, {"first is 1", "count 2", "2 parameters"});
  CheckBindRefused(&model, INT32_MAX, {own}, {"first is " + Text(INT32_MAX)});
  CHECK_ERROR(shampoo_optimizer_bind(model.get(), 0, -1, &own), SHAMPOO_E_INVALID, {"count -1", "2 parameters"});
  // Rejected before any element is read: the array has only one.
  CHECK_ERROR(shampoo_optimizer_bind(model.get(), 0, INT32_MAX, &own), SHAMPOO_E_INVALID,
              {"count " + Text(INT32_MAX), "2 parameters"});
  CHECK_ERROR(shampoo_optimizer_bind(model.get(), 0, 1, nullptr), SHAMPOO_E_INVALID, {"buffers is NULL"});
  CHECK_ERROR(shampoo_optimizer_bind(nullptr, 0, 1, &own), SHAMPOO_E_INVALID, {"opt is NULL"});
  CHECK(shampoo_optimizer_bind(model.get(), 0, 0, nullptr) == SHAMPOO_OK);
  CheckStillBound(&model);
}

TEST_CASE("bind rejects missing buffers that a step needs") {
  BoundModel model;
  shampoo_buffers buffers = model.Buffers(0);
  buffers.param = nullptr;
  CheckBindRefused(&model, 0, {buffers}, {"\"weight\"", "param is NULL", "grad"});
  buffers = model.Buffers(0);
  buffers.out = nullptr;
  CheckBindRefused(&model, 0, {buffers}, {"\"weight\"", "out is NULL", "grad"});
  buffers = model.Buffers(0);
  buffers.param = buffers.grad = nullptr;
  CheckBindRefused(&model, 0, {buffers}, {"\"weight\"", "param is NULL", "out"});
  buffers.out = nullptr;
  CheckBindRefused(&model, 0, {buffers}, {"\"weight\"", "param is NULL", "copy"});
  // One wrong element: none is bound.
  shampoo_buffers bad = model.Buffers(1);
  bad.param = nullptr;
  buffers = model.Buffers(0);
  buffers.out = buffers.copy;
  buffers.copy = nullptr;
  CheckBindRefused(&model, 0, {buffers, bad}, {"\"bias\"", "param is NULL"});
  CheckStillBound(&model);
}

TEST_CASE("bind rejects memory that is misaligned for its dtype") {
  for (const char* field : {"param", "grad", "out", "copy"}) {
    BoundModel model;
    Array room(SHAMPOO_F32, SmallModel::kElements[0] + 1);
    shampoo_buffers buffers = model.Buffers(0);
    void* const misaligned = room.data() + 2;
    const std::string name = field;
    if (name == "param") buffers.param = misaligned;
    if (name == "grad") buffers.grad = misaligned;
    if (name == "out") buffers.out = misaligned;
    if (name == "copy") buffers.copy = misaligned;
    CheckBindRefused(&model, 0, {buffers}, {"\"weight\"", name + " is not aligned", "f32", "4"});
    CheckStillBound(&model);
  }
}

TEST_CASE("bind rejects outputs that overlap other buffers") {
  BoundModel model;
  const shampoo_buffers good = model.Buffers(0);
  // Room for two: the second begins at the last element of the first.
  Array room(SHAMPOO_F32, 2 * SmallModel::kElements[0]);
  char* const start = room.data();
  char* const last = start + (SmallModel::kElements[0] - 1) * sizeof(float);
  shampoo_buffers buffers = good;
  const auto check = [&](std::initializer_list<std::string> words) {
    CheckBindRefused(&model, 0, {buffers}, words);
    buffers = good;
  };
  buffers.out = model.grad[0].data();
  check({"\"weight\"", "out overlaps grad"});
  buffers.copy = model.param[0].data();
  check({"\"weight\"", "copy overlaps param"});
  buffers.copy = model.grad[0].data();
  check({"\"weight\"", "copy overlaps grad"});
  buffers.copy = model.out[0].data();
  check({"\"weight\"", "copy overlaps out"});
  buffers.param = start, buffers.out = last;
  check({"\"weight\"", "out overlaps param", "same dtype"});
  buffers.out = start, buffers.param = last;
  check({"\"weight\"", "out overlaps param"});
  buffers.copy = start, buffers.grad = last;
  check({"\"weight\"", "copy overlaps grad"});
  // Adjacent arrays do not overlap.
  buffers.param = start, buffers.out = last + sizeof(float);
  CHECK(shampoo_optimizer_bind(model.get(), 0, 1, &buffers) == SHAMPOO_OK);
  model.Bind();
  CheckStillBound(&model);
}

TEST_CASE("an update in place needs the same dtype") {
  const PlanPtr plan = MakePlan();
  shampoo_param_desc desc = ParamDesc("p", {4});
  desc.out_dtype = SHAMPOO_BF16;
  REQUIRE_OK(shampoo_plan_add_param(plan.get(), &desc, nullptr));
  REQUIRE_OK(shampoo_plan_finish(plan.get()));
  const OptimizerPtr optimizer = MakeOptimizer(plan);
  float param[4] = {1, 2, 3, 4}, grad[4] = {1, 1, 1, 1};
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  buffers.param = buffers.out = param;
  buffers.grad = grad;
  CHECK_ERROR(shampoo_optimizer_bind(optimizer.get(), 0, 1, &buffers), SHAMPOO_E_INVALID,
              {"\"p\"", "out overlaps param", "same dtype"});
}

TEST_CASE("state_in and state_out must both be set, aligned, and must not overlap") {
  BoundModel model;
  int64_t bytes = 0;
  REQUIRE_OK(shampoo_plan_bytes(model.plan.get(), 0, "state", &bytes));
  std::vector<char> memory(static_cast<size_t>(2 * bytes) + 512);
  char* const arena = memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256);
  const auto before = model.Everything();
  CHECK_ERROR(shampoo_optimizer_bind_state(nullptr, arena, arena), SHAMPOO_E_INVALID, {"opt is NULL"});
  CHECK_ERROR(shampoo_optimizer_bind_state(model.get(), nullptr, arena), SHAMPOO_E_INVALID, {"state_in is NULL"});
  CHECK_ERROR(shampoo_optimizer_bind_state(model.get(), arena, nullptr), SHAMPOO_E_INVALID, {"state_out is NULL"});
  CHECK_ERROR(shampoo_optimizer_bind_state(model.get(), arena + 32, arena), SHAMPOO_E_INVALID,
              {"state_in is not aligned", "64"});
  CHECK_ERROR(shampoo_optimizer_bind_state(model.get(), arena, arena + 8), SHAMPOO_E_INVALID,
              {"state_out is not aligned", "64"});
  CHECK_ERROR(shampoo_optimizer_bind_state(model.get(), arena, arena + 256), SHAMPOO_E_INVALID,
              {"overlap", Text(bytes)});
  CHECK(model.Everything() == before);
  CheckStillBound(&model);
}

}  // namespace
}  // namespace shampoo_test
