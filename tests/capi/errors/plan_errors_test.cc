// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <climits>

#include "errors_test_util.h"

namespace shampoo_test {
namespace {

// Checks that adding a parameter fails with an error that contains these words. Checks that the plan then still accepts
// a valid parameter with the same name.
void CheckParamRefused(const shampoo_param_desc& desc, std::initializer_list<std::string> words) {
  const PlanPtr plan = MakePlan();
  int32_t index = -5;
  CHECK_ERROR(shampoo_plan_add_param(plan.get(), &desc, &index), SHAMPOO_E_INVALID, words);
  CHECK(index == -5);
  const shampoo_param_desc good = Param(desc.name == nullptr || desc.name[0] == 0 ? "p" : desc.name, {2, 3});
  CHECK(shampoo_plan_add_param(plan.get(), &good, &index) == SHAMPOO_OK);
  CHECK(index == 0);
}

void CheckCreateRefused(const Keys& values, const shampoo_plan_desc& desc, shampoo_status code,
                        std::initializer_list<std::string> words) {
  const ConfigPtr config = MakeConfig(values);
  const PlanPtr untouched = MakePlan();
  shampoo_plan* plan = untouched.get();
  CHECK_ERROR(shampoo_plan_create(&plan, config.get(), &desc), code, words);
  CHECK(plan == untouched.get());
}

TEST_CASE("a plan rejects invalid ranks, threads and devices") {
  shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  const auto with = [&](int32_t shampoo_plan_desc::*field, int32_t value) {
    shampoo_plan_desc changed = desc;
    changed.*field = value;
    return changed;
  };
  using Desc = shampoo_plan_desc;
  CheckCreateRefused({}, with(&Desc::device_type, 3), SHAMPOO_E_UNSUPPORTED, {"device_type is 3", "SHAMPOO_CUDA"});
  CheckCreateRefused({}, with(&Desc::device_type, 0), SHAMPOO_E_UNSUPPORTED, {"device_type is 0", "SHAMPOO_CPU"});
  CheckCreateRefused({}, with(&Desc::threads, -1), SHAMPOO_E_INVALID, {"threads is -1", "0", "4096"});
  CheckCreateRefused({}, with(&Desc::threads, 4097), SHAMPOO_E_INVALID, {"threads is 4097", "4096"});
  CheckCreateRefused({}, with(&Desc::replica_world, 0), SHAMPOO_E_INVALID, {"replica_world is 0", "1 to 1048576"});
  CheckCreateRefused({}, with(&Desc::shard_world, -3), SHAMPOO_E_INVALID, {"shard_world is -3", "1 to 1048576"});
  CheckCreateRefused({}, with(&Desc::replica_rank, 1), SHAMPOO_E_INVALID,
                     {"replica_rank is 1", "expected 0 because replica_world is 1"});
  CheckCreateRefused({}, with(&Desc::replica_rank, -1), SHAMPOO_E_INVALID,
                     {"replica_rank is -1", "expected 0 because replica_world is 1"});
  desc.shard_world = 4;
  CheckCreateRefused({}, with(&Desc::shard_rank, 4), SHAMPOO_E_INVALID, {"shard_rank is 4", "0 to 3"});
  CheckCreateRefused({}, with(&Desc::shard_rank, -1), SHAMPOO_E_INVALID, {"shard_rank is -1", "0 to 3"});
}

TEST_CASE("a plan rejects config values that contradict each other") {
  const shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  const Keys early = "start_preconditioning_step=3 precondition_frequency=5";
  CheckCreateRefused("epsilon=0", desc, SHAMPOO_E_INVALID, {"key epsilon", "value 0", "expected one of them above 0"});
  // Adding a second group with contradictory values fails, and the plan still has one group.
  const PlanPtr plan = MakePlan("threads=2");
  int32_t group = -5;
  const auto add = [&](const Keys& values) {
    return shampoo_plan_add_group(plan.get(), MakeConfig(values).get(), &group);
  };
  CHECK_INVALID(add("epsilon=0"), "key epsilon", "value 0", "expected one of them above 0");
  CHECK_INVALID(add(early), "start_preconditioning_step is 3");
  CHECK_INVALID(add("threads=3"), "key threads", "3", "2", "plan's");
  CHECK(group == -5);
  CHECK(add("threads=2") == SHAMPOO_OK);
  CHECK(add({}) == SHAMPOO_OK);
  CHECK(group == 2);
}

TEST_CASE("a parameter needs a unique name") {
  CheckParamRefused(Param(nullptr, {2}), {"desc.name is NULL"});
  CheckParamRefused(Param("", {2}), {"name is empty", "unique"});
  const PlanPtr plan = MakePlan();
  const shampoo_param_desc desc = Param("twice", {2});
  int32_t index = -5;
  RequireOk(shampoo_plan_add_param(plan.get(), &desc, nullptr));
  CHECK_INVALID(shampoo_plan_add_param(plan.get(), &desc, &index), "\"twice\"", "taken", "unique");
  CHECK(index == -5);
  const shampoo_param_desc other = Param("once", {2});
  RequireOk(shampoo_plan_add_param(plan.get(), &other, &index));
  CHECK(index == 1);
}

TEST_CASE("a parameter with an invalid shape is rejected") {
  shampoo_param_desc desc = Param("p", {2, 3});
  desc.ndim = 9;
  CheckParamRefused(desc, {"\"p\"", "ndim is 9", "8"});
  desc.ndim = -1;
  CheckParamRefused(desc, {"\"p\"", "ndim is -1", "0"});
  CheckParamRefused(Param("p", {2, -3}), {"\"p\"", "shape[1] is -3", "at least 0"});
  const int64_t large = int64_t{1} << 40;
  CheckParamRefused(Param("p", {large, large}), {"\"p\"", "shape is (" + Text(large), "2^59"});
  CheckParamRefused(Param("p", {(int64_t{1} << 59) + 1}), {"\"p\"", "2^59"});
  CheckParamRefused(Param("p", {INT64_MAX, INT64_MAX, 2}), {"\"p\"", "2^59"});
  desc = Param("p", {2, 3});
  desc.stack_dims = 3;
  CheckParamRefused(desc, {"\"p\"", "stack_dims is 3", "2"});
  desc.stack_dims = -1;
  CheckParamRefused(desc, {"\"p\"", "stack_dims is -1", "0"});
}

TEST_CASE("a role, a fan or row splits that do not fit the parameter are rejected") {
  shampoo_param_desc desc = Param("p", {6, 4});
  desc.role = 4;
  CheckParamRefused(desc, {"\"p\"", "role is 4", "SHAMPOO_HIDDEN (0)", "SHAMPOO_HEAD (3)"});
  desc = Param("p", {6, 4});
  desc.fan = 2;
  CheckParamRefused(desc, {"\"p\"", "fan is 2", "SHAMPOO_OUT_IN (0)", "SHAMPOO_IN_OUT (1)"});
  const auto splits = [](std::initializer_list<int64_t> sizes, int32_t fan = SHAMPOO_OUT_IN) {
    shampoo_param_desc fused = Param("p", {6, 4});
    std::copy(sizes.begin(), sizes.end(), fused.row_splits);
    fused.fan = fan;
    return fused;
  };
  CheckParamRefused(splits({3, 2}), {"\"p\"", "row_splits", "dim 0 of the shape (6, 4)", "sum is 6"});
  CheckParamRefused(splits({3, 4}), {"\"p\"", "row_splits", "sum is 6", "divides 6"});
  CheckParamRefused(splits({4}), {"\"p\"", "row_splits", "divides 6"});
  CheckParamRefused(splits({6}, SHAMPOO_IN_OUT), {"\"p\"", "row_splits", "dim 1 of the shape (6, 4)", "divides 4"});
  CheckParamRefused(splits({-6}), {"\"p\"", "row_splits[0] is -6", "at least 1"});
  CheckParamRefused(splits({INT64_MAX, INT64_MAX}), {"\"p\"", "row_splits", "sum is 6"});
  CheckParamRefused(splits({3, 0, 3}), {"\"p\"", "row_splits[1] is 0", "at the end"});
  shampoo_param_desc scalar = Param("p", {6});
  scalar.stack_dims = 1;
  scalar.row_splits[0] = 1;
  CheckParamRefused(scalar, {"\"p\"", "row_splits[0] is 1", "more dims than stack_dims"});
  shampoo_param_desc large = Param("p", {int64_t{1} << 40});
  large.row_splits[0] = 1;
  CheckParamRefused(large, {"\"p\"", "row_splits[0] is 1", "larger size"});
}

TEST_CASE("row splits and roles that a group cannot use are rejected when the plan is finished") {
  const auto refused = [](const Keys& keys, const shampoo_param_desc& desc, std::initializer_list<const char*> words) {
    const PlanPtr plan = MakePlan(keys);
    AddParam(plan, desc);
    CHECK(shampoo_plan_finish(plan.get()) == SHAMPOO_E_INVALID);
    CheckLastError(words);
  };
  shampoo_param_desc desc = Param("p", {6, 4});
  desc.role = SHAMPOO_EMBEDDING;
  refused("route=auto grafting=none", desc, {"\"p\"", "role is embedding", "grafting=none", "set route=off"});
  desc = Param("p", {2, 6, 4});
  desc.fan = SHAMPOO_IN_OUT;
  desc.row_splits[0] = 2;
  refused("use_merge_dims=true", desc, {"\"p\"", "row_splits", "(2, 6, 2)", "use_merge_dims=false"});
  desc = Param("p", {6, 4});
  desc.fan = SHAMPOO_IN_OUT;
  desc.row_splits[0] = 1;
  refused({}, desc, {"\"p\"", "row_splits", "(6, 1)", "at least 2 columns"});
  desc.row_splits[0] = 2;
  desc.shard_form = 1;
  desc.flat_count = 20;
  refused({}, desc, {"\"p\"", "row_splits", "flat shard", "shard_mode=gather"});
  // A rank whose shard is empty reports the same error.
  desc.flat_count = 0;
  refused({}, desc, {"\"p\"", "row_splits", "flat shard", "shard_mode=gather"});
  desc.row_splits[0] = 0;
  desc.role = SHAMPOO_HEAD;
  refused("route=auto grafting=none", desc, {"\"p\"", "role is head", "grafting=none"});
  desc = Param("p", {1025, 1024});
  desc.stack_dims = 1;
  desc.row_splits[0] = 1;
  refused("method=adam", desc, {"\"p\"", "1024 parts", "stacked tensors is 1025", "larger sizes"});
}

TEST_CASE("a parameter with an unknown group or dtype is rejected") {
  shampoo_param_desc desc = Param("p", {2, 3});
  for (const int32_t group : {1, -1, INT32_MAX}) {
    desc.group = group;
    CheckParamRefused(desc, {"\"p\"", "group is " + Text(group), "expected 0; 0 is the plan's own group"});
  }
  using Desc = shampoo_param_desc;
  const std::pair<int32_t Desc::*, std::string> fields[] = {{&Desc::param_dtype, "param_dtype"},
                                                            {&Desc::grad_dtype, "grad_dtype"},
                                                            {&Desc::out_dtype, "out_dtype"},
                                                            {&Desc::copy_dtype, "copy_dtype"}};
  for (const auto& [field, name] : fields) {
    for (const int32_t dtype : {SHAMPOO_I32 + 0, SHAMPOO_I64 + 0, 7, 8, -1, 0}) {
      // For out_dtype and copy_dtype, 0 means the dtype of the parameter.
      if (dtype == 0 && field != &Desc::param_dtype && field != &Desc::grad_dtype) continue;
      desc = Param("p", {2, 3});
      desc.*field = dtype;
      CheckParamRefused(desc, {"\"p\"", name + " is " + Text(dtype), "SHAMPOO_F32 (1)", "SHAMPOO_BF16 (4)"});
    }
  }
}

TEST_CASE("a shard must be within its parameter") {
  shampoo_param_desc desc = Param("p", {4, 3});
  for (const int32_t form : {3, -1}) {
    desc.shard_form = form;
    CheckParamRefused(desc, {"\"p\"", "shard_form is " + Text(form), "0", "2"});
  }
  // Fields that belong to another shard form must be 0.
  desc = Param("p", {10});
  desc.flat_offset = desc.flat_count = 5;
  CheckParamRefused(desc, {"\"p\"", "flat_offset is 5", "shard_form is 0", "set shard_form to 1"});
  desc = Param("p", {10});
  desc.local_shape[0] = 3;
  CheckParamRefused(desc, {"\"p\"", "local_shape[0] is 3", "shard_form is 0", "set shard_form to 2"});
  desc = Param("p", {4, 3});
  desc.shard_form = 1;
  const std::pair<int64_t, int64_t> flat[] = {{0, 13}, {12, 1}, {13, 0}, {-1, 2}, {2, -1}, {5, INT64_MAX}};
  for (const auto& [offset, count] : flat) {
    desc.flat_offset = offset;
    desc.flat_count = count;
    CheckParamRefused(desc,
                      {"\"p\"", "flat_offset is " + Text(offset), "flat_count is " + Text(count), "12", "(4, 3)"});
  }
  desc = Param("p", {4, 3});
  desc.shard_form = 2;
  desc.local_shape[0] = 4;
  const std::pair<int64_t, int64_t> columns[] = {{0, 4}, {3, 1}, {4, 0}, {-1, 2}, {1, -1}, {1, INT64_MAX}};
  for (const auto& [offset, count] : columns) {
    desc.local_offset[1] = offset;
    desc.local_shape[1] = count;
    CheckParamRefused(desc,
                      {"\"p\"", "local_offset[1] is " + Text(offset), "local_shape[1] is " + Text(count), "(4, 3)"});
  }
}

}  // namespace
}  // namespace shampoo_test
