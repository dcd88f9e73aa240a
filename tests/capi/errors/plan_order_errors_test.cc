// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "errors_test_util.h"

namespace shampoo_test {
namespace {

TEST_CASE("functions of a plan reject NULL and name the argument in the error") {
  const ConfigPtr config = MakeConfig();
  const shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  const shampoo_param_desc desc = Param("p", {2});
  const PlanPtr plan = MakeSmallPlan();
  shampoo_plan* out = plan.get();
  int64_t number = -5;
  shampoo_block_info info = SHAMPOO_BLOCK_INFO_INIT;
  CHECK_INVALID(shampoo_plan_create(nullptr, config.get(), &plan_desc), "out is NULL");
  CHECK_INVALID(shampoo_plan_create(&out, nullptr, &plan_desc), "config is NULL");
  CHECK_INVALID(shampoo_plan_create(&out, config.get(), nullptr), "desc is NULL");
  CHECK(out == plan.get());
  CHECK_INVALID(shampoo_plan_add_group(nullptr, config.get(), nullptr), "plan is NULL");
  CHECK_INVALID(shampoo_plan_add_group(plan.get(), nullptr, nullptr), "config is NULL");
  CHECK_INVALID(shampoo_plan_add_param(nullptr, &desc, nullptr), "plan is NULL");
  CHECK_INVALID(shampoo_plan_add_param(plan.get(), nullptr, nullptr), "desc is NULL");
  CHECK_INVALID(shampoo_plan_finish(nullptr), "plan is NULL");
  CHECK_INVALID(shampoo_plan_block_count(nullptr, &number), "plan is NULL");
  CHECK_INVALID(shampoo_plan_block_count(plan.get(), nullptr), "count_out is NULL");
  CHECK_INVALID(shampoo_plan_block(nullptr, 0, &info), "plan is NULL");
  CHECK_INVALID(shampoo_plan_block(plan.get(), 0, nullptr), "info is NULL");
  CHECK_INVALID(shampoo_plan_bytes(nullptr, 0, "state", &number), "plan is NULL");
  CHECK_INVALID(shampoo_plan_bytes(plan.get(), 0, nullptr, &number), "what is NULL");
  CHECK_INVALID(shampoo_plan_bytes(plan.get(), 0, "state", nullptr), "bytes_out is NULL");
  CHECK(number == -5);
  shampoo_plan_destroy(nullptr);
}

TEST_CASE("a plan cannot be queried before it is finished") {
  const PlanPtr plan = MakePlan();
  int64_t number = -5;
  shampoo_block_info info = SHAMPOO_BLOCK_INFO_INIT;
  info.param = -5;
  CHECK_ERROR(shampoo_plan_block_count(plan.get(), &number), SHAMPOO_E_STATE, {"not finished", "shampoo_plan_finish"});
  CHECK_ERROR(shampoo_plan_block(plan.get(), 0, &info), SHAMPOO_E_STATE, {"not finished", "shampoo_plan_finish"});
  CHECK_ERROR(shampoo_plan_bytes(plan.get(), 0, "state", &number), SHAMPOO_E_STATE,
              {"not finished", "shampoo_plan_finish"});
  CHECK(number == -5);
  CHECK(info.param == -5);
  const shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_optimizer* optimizer = nullptr;
  CHECK_ERROR(shampoo_optimizer_create(&optimizer, plan.get(), &desc), SHAMPOO_E_STATE,
              {"not finished", "shampoo_plan_finish"});
  CHECK(optimizer == nullptr);
}

TEST_CASE("nothing can be added to a finished plan") {
  const PlanPtr plan = MakeSmallPlan();
  const ConfigPtr config = MakeConfig();
  const shampoo_param_desc late = Param("late", {64, 64});
  int64_t before = 0;
  int64_t after = 0;
  int32_t number = -5;
  RequireOk(shampoo_plan_bytes(plan.get(), 0, "total", &before));
  CHECK_ERROR(shampoo_plan_add_param(plan.get(), &late, &number), SHAMPOO_E_STATE, {"finished", "before"});
  CHECK_ERROR(shampoo_plan_add_group(plan.get(), config.get(), &number), SHAMPOO_E_STATE, {"finished", "before"});
  CHECK_ERROR(shampoo_plan_finish(plan.get()), SHAMPOO_E_STATE, {"finished already", "once"});
  RequireOk(shampoo_plan_bytes(plan.get(), 0, "total", &after));
  CHECK(number == -5);
  CHECK(before == after);
}

TEST_CASE("queries of a plan reject names that are unknown and blocks or ranks that do not exist") {
  const PlanPtr plan = MakeSmallPlan();
  int64_t count = 0;
  RequireOk(shampoo_plan_block_count(plan.get(), &count));
  CHECK(count == 6);
  shampoo_block_info info = SHAMPOO_BLOCK_INFO_INIT;
  info.param = -5;
  for (const int64_t index : {int64_t{-1}, count, INT64_MAX, INT64_MIN}) {
    CHECK_INVALID(shampoo_plan_block(plan.get(), index, &info), "index is " + Text(index), "0 to 5");
  }
  CHECK(info.param == -5);
  int64_t bytes = -5;
  for (const int32_t rank : {-2, 1}) {
    CHECK_INVALID(shampoo_plan_bytes(plan.get(), rank, "state", &bytes), "rank is " + Text(rank), "expected 0, or -1");
  }
  for (const std::string what : {"", "states", "State", "everything"}) {
    CHECK_INVALID(shampoo_plan_bytes(plan.get(), 0, what.c_str(), &bytes), "argument \"what\" is \"" + what + "\"",
                  "state, workspace, total or comm");
  }
  CHECK(bytes == -5);
}

TEST_CASE("a block with a dim that is too long for a factor matrix is rejected, and the plan stays unfinished") {
  const PlanPtr plan = MakePlan("max_preconditioner_dim=1000000");
  const shampoo_param_desc long_vector = Param("long", {32751});
  RequireOk(shampoo_plan_add_param(plan.get(), &long_vector, nullptr));
  CHECK_INVALID(shampoo_plan_finish(plan.get()), "\"long\"", "(32751)", "32750", "max_preconditioner_dim");
  int64_t count = -5;
  CHECK_ERROR(shampoo_plan_block_count(plan.get(), &count), SHAMPOO_E_STATE, {"not finished"});
  CHECK(count == -5);
  const shampoo_param_desc more = Param("more", {2});
  CHECK(shampoo_plan_add_param(plan.get(), &more, nullptr) == SHAMPOO_OK);
}

TEST_CASE("a parameter that is divided into too many blocks is rejected") {
  const PlanPtr plan = MakePlan("max_preconditioner_dim=1");
  const shampoo_param_desc wide = Param("wide", {2048, 2048});
  RequireOk(shampoo_plan_add_param(plan.get(), &wide, nullptr));
  CHECK_INVALID(shampoo_plan_finish(plan.get()), "\"wide\"", "(2048, 2048)", Text(1 << 20), "max_preconditioner_dim",
                "1");
}

}  // namespace
}  // namespace shampoo_test
