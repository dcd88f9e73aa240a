// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "errors_test_util.h"

namespace shampoo_test {
namespace {

PlanPtr MakeShardPlan(const char* shard_mode = "gather", int32_t rank = 1, int32_t world = 3) {
  shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  desc.shard_rank = rank;
  desc.shard_world = world;
  return MakePlan({{"shard_mode", shard_mode}}, desc);
}

shampoo_param_desc Flat(int64_t offset, int64_t count, const std::vector<int64_t>& shape = {6, 4}) {
  return FlatShard(Param("p", shape), offset, count);
}

shampoo_param_desc Rectangle(int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return RectangleShard(Param("p", {6, 4}), {row, column}, {rows, columns});
}

TEST_CASE("shampoo_plan_add_shard rejects invalid shards of other ranks and changes nothing") {
  const PlanPtr plan = MakeShardPlan();
  AddParam(plan, Flat(10, 4));
  const auto refused = [&](int32_t param, int32_t rank, const shampoo_param_desc& desc,
                           std::initializer_list<std::string> words) {
    CHECK_ERROR(shampoo_plan_add_shard(plan.get(), param, rank, &desc), SHAMPOO_E_INVALID, words);
  };
  refused(1, 0, Flat(0, 10), {"param is 1", "the plan has 1 parameter", "shampoo_plan_add_param"});
  refused(-1, 0, Flat(0, 10), {"param is -1"});
  refused(0, 3, Flat(0, 10), {"\"p\"", "shard_rank is 3", "0 to 2"});
  refused(0, -1, Flat(0, 10), {"shard_rank is -1"});
  refused(0, 0, Flat(0, 25), {"\"p\"", "flat_count is 25", "[0, 24), the elements"});
  refused(0, 0, Rectangle(0, 7, 0, 4), {"local_shape[0] is 7", "[0, 6), dim 0", "(6, 4)"});
  refused(0, 1, Flat(10, 5),
          {"shard rank 1", "differs from", "shampoo_plan_add_param for this rank"});  // shard rank 1 is this rank
  shampoo_param_desc odd = Flat(0, 10);
  odd.shard_form = 0;
  refused(0, 0, odd, {"flat_count is 10", "shard_form is 0"});
  odd.shard_form = 3;
  refused(0, 0, odd, {"shard_form is 3"});
  const shampoo_param_desc first = Flat(0, 10);
  CHECK_INVALID(shampoo_plan_add_shard(nullptr, 0, 0, &first), "plan is NULL");
  CHECK_INVALID(shampoo_plan_add_shard(plan.get(), 0, 0, nullptr), "desc is NULL");

  CHECK(shampoo_plan_add_shard(plan.get(), 0, 0, &first) == SHAMPOO_OK);
  CHECK(shampoo_plan_add_shard(plan.get(), 0, 0, &first) == SHAMPOO_OK);  // the same description again
  refused(0, 0, Flat(0, 9), {"shard rank 0", "differs from", "an earlier call"});
  const shampoo_param_desc last = Flat(14, 10);
  CHECK(shampoo_plan_add_shard(plan.get(), 0, 2, &last) == SHAMPOO_OK);
  CHECK(shampoo_plan_finish(plan.get()) == SHAMPOO_OK);
  CHECK_ERROR(shampoo_plan_add_shard(plan.get(), 0, 0, &first), SHAMPOO_E_STATE, {"finished"});
}

// Makes a plan of rank 1 of 3 with its shard `own` and, if not null, the shards `zero` of rank 0 and `two` of rank 2.
// If `words` is empty, checks that finishing the plan succeeds. Otherwise checks that it fails with an error that
// contains all words.
void CheckFinish(const shampoo_param_desc& own, const shampoo_param_desc* zero, const shampoo_param_desc* two,
                 std::initializer_list<std::string> words) {
  const PlanPtr plan = MakeShardPlan();
  AddParam(plan, own);
  if (zero != nullptr) RequireOk(shampoo_plan_add_shard(plan.get(), 0, 0, zero));
  if (two != nullptr) RequireOk(shampoo_plan_add_shard(plan.get(), 0, 2, two));
  if (words.size() == 0) {
    CHECK_MESSAGE(shampoo_plan_finish(plan.get()) == SHAMPOO_OK, shampoo_last_error());
  } else {
    CHECK_ERROR(shampoo_plan_finish(plan.get()), SHAMPOO_E_INVALID, words);
  }
}

TEST_CASE(
    "gathered shards that are unknown, overlap or leave gaps are rejected, and copies of the whole parameter are "
    "accepted") {
  // A plan infers the shards of the other ranks if the shard of its rank is an equal chunk of the elements, an equal
  // chunk of the rows, or the whole parameter.
  CheckFinish(Flat(8, 8), nullptr, nullptr, {});
  CheckFinish(Rectangle(2, 2, 0, 4), nullptr, nullptr, {});
  CheckFinish(Param("p", {6, 4}), nullptr, nullptr, {});
  const shampoo_param_desc flat_whole = Flat(0, 24);
  const shampoo_param_desc whole_rectangle = Rectangle(0, 6, 0, 4);
  CheckFinish(Param("p", {6, 4}), &flat_whole, &whole_rectangle, {});  // the shard forms of the ranks differ
  CheckFinish(Flat(8, 7), nullptr, nullptr,
              {"\"p\"", "shard ranks 0, 2", "shampoo_plan_add_shard", "neither an equal chunk"});
  CheckFinish(Rectangle(2, 2, 0, 3), nullptr, nullptr, {"shard ranks 0, 2", "shampoo_plan_add_shard"});

  const shampoo_param_desc to_10 = Flat(0, 10);
  const shampoo_param_desc from_14 = Flat(14, 10);
  const shampoo_param_desc from_15 = Flat(15, 9);
  const shampoo_param_desc none = Flat(24, 0);
  const shampoo_param_desc all = Flat(0, 24);
  CheckFinish(Flat(10, 4), &to_10, &from_14, {});
  CheckFinish(none, &all, &none, {});
  CheckFinish(Flat(10, 4), &to_10, nullptr, {"missing: shard rank 2", "shampoo_plan_add_shard"});
  CheckFinish(Flat(10, 4), &to_10, &from_15, {"\"p\"", "23 of 24 elements"});
  CheckFinish(Flat(9, 5), &to_10, &from_14, {"the shards of shard ranks 0 and 1 overlap"});
  CheckFinish(Flat(8, 8), &to_10, nullptr, {"missing: shard rank 2"});

  const shampoo_param_desc left = Rectangle(0, 6, 0, 1);
  const shampoo_param_desc right = Rectangle(0, 6, 3, 1);
  const shampoo_param_desc no_rows = Rectangle(0, 0, 0, 4);
  CheckFinish(Rectangle(0, 6, 1, 2), &left, &right, {});
  CheckFinish(Rectangle(0, 6, 1, 1), &left, &right, {"18 of 24 elements"});
  CheckFinish(Rectangle(0, 6, 1, 3), &left, &right, {"the shards of shard ranks 1 and 2 overlap"});
  CheckFinish(Rectangle(0, 6, 1, 3), &left, &no_rows, {});
  CheckFinish(Flat(10, 4), &left, &from_14, {"different shard form"});
}

TEST_CASE("a plan infers the flat shards of other ranks only from an equal chunk of the rows or of the elements") {
  const auto finish = [](int32_t rank, const std::vector<int64_t>& shape, int64_t offset, int64_t count) {
    const PlanPtr plan = MakeShardPlan("gather", rank, 2);
    AddParam(plan, Flat(offset, count, shape));
    return shampoo_plan_finish(plan.get());
  };
  CHECK(finish(0, {9, 7}, 0, 35) == SHAMPOO_OK);  // an equal chunk of dim 0: half of 9 rows, rounded up
  CHECK(finish(1, {9, 7}, 35, 28) == SHAMPOO_OK);
  CHECK(finish(0, {9, 7}, 0, 32) == SHAMPOO_OK);  // an equal chunk of the elements: half of 63, rounded up
  CHECK(finish(0, {9, 7}, 0, 34) == SHAMPOO_E_INVALID);
  CHECK(finish(0, {1}, 0, 1) == SHAMPOO_OK);
  CHECK(finish(1, {1}, 1, 0) == SHAMPOO_OK);
  CHECK(finish(1, {1}, 0, 1) == SHAMPOO_E_INVALID);
}

TEST_CASE("creating an optimizer requires shard_comm only if several shard ranks use shard_mode=gather") {
  const auto create = [](const PlanPtr& plan) {
    RequireOk(shampoo_plan_finish(plan.get()));
    return TryCreate(plan);
  };
  const PlanPtr gather = MakeShardPlan();
  AddParam(gather, Flat(8, 8));
  CHECK_INVALID(create(gather), "shard_comm is NULL", "shard_mode=gather", "shard_world is 3");
  const PlanPtr local = MakeShardPlan("local");
  AddParam(local, Flat(8, 8));
  CHECK(create(local) == SHAMPOO_OK);
  const PlanPtr one = MakePlan("shard_mode=gather");
  AddParam(one, Flat(0, 24));
  CHECK(create(one) == SHAMPOO_OK);
  const PlanPtr part = MakePlan("shard_mode=gather");
  AddParam(part, Flat(8, 8));
  CHECK_INVALID(shampoo_plan_finish(part.get()), "\"p\"", "8 of 24 elements");
}

TEST_CASE("shampoo_plan_bytes rejects unknown names and ranks that do not exist") {
  const PlanPtr plan = MakeShardPlan();
  AddParam(plan, Flat(8, 8));
  RequireOk(shampoo_plan_finish(plan.get()));
  int64_t bytes = -5;
  CHECK(shampoo_plan_bytes(plan.get(), 2, "comm.all_gather", &bytes) == SHAMPOO_OK);
  int64_t own = -5;
  CHECK(shampoo_plan_bytes(plan.get(), -1, "state", &own) == SHAMPOO_OK);
  CHECK(shampoo_plan_bytes(plan.get(), 1, "state", &bytes) == SHAMPOO_OK);
  CHECK(own == bytes);
  CHECK_INVALID(shampoo_plan_bytes(plan.get(), 3, "comm", &bytes), "rank is 3", "0 to 2");
  CHECK_INVALID(shampoo_plan_bytes(plan.get(), 0, "state.all_gather", &bytes), "\"state.all_gather\"", ".all_gather");
}

}  // namespace
}  // namespace shampoo_test
