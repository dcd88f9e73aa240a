// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "small_model.h"

namespace shampoo_test {
namespace {

// A model that has made one step.
struct SteppedModel : BoundModel {
  SteppedModel() { RequireOk(TryStep()); }
};

void CheckBindRefused(SteppedModel* model, int32_t first, const std::vector<shampoo_buffers>& buffers,
                      std::initializer_list<std::string> words) {
  const auto before = model->Everything();
  CHECK_ERROR(shampoo_optimizer_bind(model->get(), first, static_cast<int32_t>(buffers.size()), buffers.data()),
              SHAMPOO_E_INVALID, words);
  CHECK(std::string(shampoo_optimizer_error(model->get())) == shampoo_last_error());
  CHECK(model->Everything() == before);
}

// Checks that failed binds have not changed the bindings: the next step must write the values that a model without
// failed binds writes.
void CheckStillBound(SteppedModel* model) {
  SteppedModel other;
  for (SteppedModel* const each : {model, &other}) {
    each->FillGradients(9);
    RequireOk(each->TryStep());
  }
  CHECK(model->Everything() == other.Everything());
}

TEST_CASE("the error of a step before bind names the first parameter that has no buffers") {
  SmallModel model;
  const auto before = model.Everything();
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_STATE,
              {"\"weight\"", "index 0", "shampoo_optimizer_bind"});
  const shampoo_buffers weight = model.Buffers(0);
  RequireOk(shampoo_optimizer_bind(model.get(), 0, 1, &weight));
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_STATE, {"\"bias\"", "index 1"});
  CHECK(model.Everything() == before);
  model.Bind();
  CHECK(shampoo_optimizer_step(model.get(), nullptr) == SHAMPOO_OK);
}

TEST_CASE("shampoo_optimizer_step and bind_state reject a NULL optimizer, and a step on the CPU rejects a stream") {
  SteppedModel model;
  const auto before = model.Everything();
  int stream = 0;
  CHECK_INVALID(shampoo_optimizer_step(nullptr, nullptr), "opt is NULL");
  CHECK_INVALID(shampoo_optimizer_bind_state(nullptr, nullptr, nullptr), "opt is NULL");
  CHECK_INVALID(shampoo_optimizer_step(model.get(), &stream), "stream is not NULL", "CPU");
  CHECK(model.Everything() == before);
}

TEST_CASE("bind accepts only indices of the plan's parameters") {
  SteppedModel model;
  const shampoo_buffers own = model.Buffers(0);
  const shampoo_buffers bias = model.Buffers(1);
  CheckBindRefused(&model, 2, {own}, {"first is 2", "count is 1", "[0, 2), the parameters"});
  CheckBindRefused(&model, -1, {own}, {"first is -1", "count is 1", "[0, 2), the parameters"});
  CheckBindRefused(&model, 1, {bias, own}, {"first is 1", "count is 2", "[0, 2), the parameters"});
  CheckBindRefused(&model, INT32_MAX, {own}, {"first is " + Text(INT32_MAX)});
  CHECK_INVALID(shampoo_optimizer_bind(model.get(), 0, -1, &own), "count is -1", "[0, 2), the parameters of the plan");
  // The call must fail before it reads the array, which has only one element.
  CHECK_INVALID(shampoo_optimizer_bind(model.get(), 0, INT32_MAX, &own), "count is " + Text(INT32_MAX),
                "[0, 2), the parameters of the plan");
  CHECK_INVALID(shampoo_optimizer_bind(model.get(), 0, 1, nullptr), "buffers is NULL");
  CHECK_INVALID(shampoo_optimizer_bind(nullptr, 0, 1, &own), "opt is NULL");
  CHECK(shampoo_optimizer_bind(model.get(), 0, 0, nullptr) == SHAMPOO_OK);
  // If one element of the array is wrong, no element is bound.
  shampoo_buffers elsewhere = own, bad = bias;
  elsewhere.out = own.copy;
  elsewhere.copy = nullptr;
  bad.param = nullptr;
  CheckBindRefused(&model, 0, {elsewhere, bad}, {"\"bias\"", "param is NULL"});
  CheckStillBound(&model);
}

TEST_CASE("bind rejects outputs that overlap other buffers") {
  SteppedModel model;
  const shampoo_buffers good = model.Buffers(0);
  // `room` has space for two arrays of the size of "weight". The array at `last` begins at the last element of the
  // array at `start`.
  Array room(SHAMPOO_F32, 2 * SmallModel::kElements[0]);
  char* const start = room.data();
  char* const last = start + (SmallModel::kElements[0] - 1) * sizeof(float);
  shampoo_buffers buffers = good;
  const auto check = [&](std::initializer_list<std::string> words) {
    CheckBindRefused(&model, 0, {buffers}, words);
    buffers = good;
  };
  buffers.out = model.tensors[0].g.data();
  check({"\"weight\"", "out overlaps grad"});
  buffers.copy = model.tensors[0].w.data();
  check({"\"weight\"", "copy overlaps param"});
  buffers.copy = model.tensors[0].g.data();
  check({"\"weight\"", "copy overlaps grad"});
  buffers.copy = model.tensors[0].out.data();
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

}  // namespace
}  // namespace shampoo_test
