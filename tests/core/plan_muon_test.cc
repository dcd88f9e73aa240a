// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Plans with the methods muon and sign, and with the keys that control norms: their blocks and their errors.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/cpu/slot_memory.h"
#include "core/plan/plan.h"
#include "core/state/entries.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

using PlanKeys = std::vector<std::pair<const char*, const char*>>;

ParamDesc ParamOf(const Shape& shape, int stack_dims = 0) {
  ParamDesc desc;
  desc.name = "w";
  desc.shape = shape;
  desc.stack_dims = stack_dims;
  return desc;
}

// Returns a shard that consists of `count` elements of a tensor, from element `offset` on.
ParamDesc FlatShardOf(const Shape& shape, int64_t offset, int64_t count) {
  ParamDesc desc = ParamOf(shape);
  desc.form = ShardForm::kFlat;
  desc.flat_offset = offset;
  desc.flat_count = count;
  return desc;
}

// Creates a plan of one parameter.
Status MakePlanOf(const PlanKeys& keys, const ParamDesc& desc, std::unique_ptr<Plan>* plan,
                  const Placement& placement = {}) {
  Config config;
  for (const auto& [key, value] : keys) CheckOk(config.SetText(key, value));
  SHAMPOO_RETURN_IF_ERROR(Plan::Create(config, placement, CpuWorkspaceBytes, plan));
  int index = 0;
  SHAMPOO_RETURN_IF_ERROR((*plan)->AddParam(desc, &index));
  return (*plan)->Finish();
}

Status PlanStatusOf(const PlanKeys& keys, const ParamDesc& desc, const Placement& placement = {}) {
  std::unique_ptr<Plan> plan;
  return MakePlanOf(keys, desc, &plan, placement);
}

// Returns the names of all states of the parameter, in the order of the arena.
std::vector<std::string> StateNamesOf(const PlanKeys& keys, const ParamDesc& desc) {
  std::unique_ptr<Plan> plan;
  CheckOk(MakePlanOf(keys, desc, &plan));
  std::vector<std::string> names;
  for (const StateEntry& entry : ListEntries(*plan->data())) {
    if (entry.block >= 0) names.emplace_back(entry.state());
  }
  return names;
}

TEST_CASE("method muon rejects a vector if route is off, and a matrix that is too large for LAPACK") {
  const PlanKeys off = {{"method", "muon"}, {"route", "off"}};
  CheckError(PlanStatusOf(off, ParamOf(Shape::Of({5}))), Code::kInvalid,
             "parameter \"w\": method muon needs a matrix, and the parameter has the shape (5): put the parameter in a "
             "group with method adam, or set the key route to auto");
  CheckError(PlanStatusOf(off, ParamOf(Shape{})), Code::kInvalid, "method muon needs a matrix, and the parameter has");
  CheckError(PlanStatusOf(off, ParamOf(Shape::Of({3, 5}), 1)), Code::kInvalid,
             "method muon needs a matrix, and a stacked tensor has the shape (5)");
  CheckOk(PlanStatusOf(off, ParamOf(Shape::Of({1, 5}))));
  CheckOk(PlanStatusOf({{"method", "muon"}}, ParamOf(Shape::Of({5}))));
  CheckError(PlanStatusOf({{"method", "muon"}}, ParamOf(Shape::Of({32751, 32751}))), Code::kInvalid,
             "a matrix of shape (32751, 32751) is too large for method muon: expected at most 2^31 - 1 elements, and "
             "at most 32750 in the smaller dim; divide it with row_splits or stack_dims, or use another method");
  CheckError(PlanStatusOf({{"method", "muon"}}, ParamOf(Shape::Of({1 << 16, 1 << 15, 2}))), Code::kInvalid,
             "is too large for method muon");
}

TEST_CASE(
    "method muon and keys that control norms reject a part of a parameter; method muon accepts it with muon_local") {
  const ParamDesc shard = FlatShardOf(Shape::Of({6, 5}), 10, 15);
  CheckError(
      PlanStatusOf({{"method", "muon"}}, shard), Code::kInvalid,
      "parameter \"w\" is divided among shard ranks: expected a whole parameter with method muon; set shard_mode "
      "gather, or use another group for the parameter; or set muon_local to true to orthogonalize each shard "
      "alone");
  for (const auto& [key, value] : PlanKeys{{"dual_norm_scale", "true"},
                                           {"update_norm", "rms"},
                                           {"max_update_rms", "1"},
                                           {"norm_control", "radial"},
                                           {"update_floor", "1"},
                                           {"grafting", "adam"}}) {
    CAPTURE(key);
    CheckError(PlanStatusOf({{"method", "sign"}, {key, value}}, shard), Code::kInvalid,
               Cat("parameter \"w\" is divided among shard ranks: expected a whole parameter with the keys ", kNormKeys,
                   "; set shard_mode gather"));
  }
  CheckOk(PlanStatusOf({{"method", "sign"}}, shard));
  // Parameters that method adam updates may be divided.
  ParamDesc embedding = shard;
  embedding.role = Role::kEmbedding;
  CheckOk(PlanStatusOf({{"method", "muon"}, {"update_norm", "rms"}}, embedding));
  const PlanKeys local = {{"method", "muon"}, {"muon_local", "true"}};
  CheckOk(PlanStatusOf(local, shard));
}

TEST_CASE("means of rows and floors of rows are rejected for parts of a parameter, also with muon_local") {
  const ParamDesc shard = FlatShardOf(Shape::Of({2, 50, 3}), 3, 57);
  const auto status = [&](const PlanKeys& more) {
    PlanKeys keys = {{"method", "muon"}, {"muon_local", "true"}};
    keys.insert(keys.end(), more.begin(), more.end());
    return PlanStatusOf(keys, shard);
  };
  const char* const text =
      "parameter \"w\" is divided among shard ranks: expected a whole parameter for second_moment row or short and "
      "for update_floor_rows, even with muon_local";
  CheckError(status({{"second_moment", "row"}}), Code::kInvalid, text);
  CheckError(status({{"second_moment", "short"}}), Code::kInvalid, text);
  CheckError(status({{"update_floor", "0.5"}, {"update_floor_rows", "true"}}), Code::kInvalid, text);
  CheckOk(status({{"second_moment", "element"}, {"update_floor", "0.5"}}));
  CheckOk(status({{"update_floor_rows", "true"}}));  // without a floor
}

TEST_CASE("a plan for a GPU accepts muon with exact orthogonalization, soap_post, sign and every norm_control") {
  Placement gpu;
  gpu.device = DeviceType::kCuda;
  const auto status = [&](const PlanKeys& keys) { return PlanStatusOf(keys, ParamOf(Shape::Of({6, 5})), gpu); };
  CheckOk(status({{"method", "muon"}, {"orthogonalization", "exact"}}));
  CheckOk(status({{"method", "soap"}, {"soap_post", "orthogonalize"}, {"orthogonalization", "exact"}}));
  CheckOk(status({{"method", "muon"}, {"muon_math", "bf16"}}));
  CheckOk(status({{"method", "sign"}}));
  for (const char* const control : {"hyperball", "relative", "radial_brake", "radial"}) {
    CheckOk(status({{"norm_control", control}, {"cautious_decay", "true"}, {"update_floor", "0.5"}}));
  }
  CheckOk(status({{"shape_scale", "muon"}}));
}

TEST_CASE("a plan for a GPU accepts the keys that exist for trajectories of a later release") {
  Placement gpu;
  gpu.device = DeviceType::kCuda;
  CheckOk(PlanStatusOf({{"trace_scaling", "0.5"}}, ParamOf(Shape::Of({6, 5})), gpu));
  CheckOk(PlanStatusOf({{"count_empty_steps", "true"}}, ParamOf(Shape::Of({6, 5})), gpu));
  CheckOk(PlanStatusOf({{"momentum", "0.5"}, {"momentum_dampening", "0.5"}}, ParamOf(Shape::Of({6, 5})), gpu));
  CheckOk(PlanStatusOf({{"drop_weighting", "true"}}, ParamOf(Shape::Of({6, 5})), gpu));
}

TEST_CASE("averages have the same states on GPUs as on the CPU, with several replicas and with gathered shards") {
  for (const PlanKeys& keys :
       {PlanKeys{{"averaging", "gpa"}}, {{"averaging", "schedule_free"}}, {{"weight_ema", "0.9"}}}) {
    for (const bool gathers : {false, true}) {
      PlanKeys placed = keys;
      placed.push_back({"shard_mode", gathers ? "gather" : "local"});
      Placement ranks;
      (gathers ? ranks.shard_world : ranks.replica_world) = 2;
      std::unique_ptr<Plan> on_cpu;
      std::unique_ptr<Plan> on_gpu;
      CheckOk(MakePlanOf(placed, ParamOf(Shape::Of({6, 5})), &on_cpu, ranks));
      ranks.device = DeviceType::kCuda;
      CheckOk(MakePlanOf(placed, ParamOf(Shape::Of({6, 5})), &on_gpu, ranks));
      CHECK(on_gpu->data()->blocks[0].average_offset().present());
      CHECK(on_gpu->data()->state_bytes() == on_cpu->data()->state_bytes());
    }
  }
}

TEST_CASE("products in bfloat16 need a GPU and float32") {
  Placement gpu;
  gpu.device = DeviceType::kCuda;
  const PlanKeys keys = {{"method", "muon"}, {"muon_math", "bf16"}};
  CheckError(PlanStatusOf(keys, ParamOf(Shape::Of({6, 5}))), Code::kUnsupported,
             "key muon_math: the value bf16 is not supported on the CPU: expected f32, or a plan for a GPU "
             "(device_type SHAMPOO_CUDA)");
  PlanKeys wide = keys;
  wide.push_back({"computation_dtype", "f64"});
  CheckError(
      PlanStatusOf(wide, ParamOf(Shape::Of({6, 5})), gpu), Code::kInvalid,
      "key muon_math: the value bf16 is not allowed for parameter \"w\", whose computation dtype is f64: expected "
      "f32, or computation_dtype f32");
  CheckOk(PlanStatusOf(wide, ParamOf(Shape::Of({6})), gpu));  // a vector is not orthogonalized
  wide.push_back({"orthogonalization", "exact"});             // takes products in float64
  CheckOk(PlanStatusOf(wide, ParamOf(Shape::Of({6, 5})), gpu));
}

TEST_CASE("matrices of method muon have one filtered gradient, and other tensors have the states of method adam") {
  using Names = std::vector<std::string>;
  const ParamDesc matrix = ParamOf(Shape::Of({6, 5}));
  CHECK(StateNamesOf({{"method", "muon"}}, matrix) == Names{"filtered_grad"});
  CHECK(StateNamesOf({{"method", "muon"}, {"beta1", "0"}}, matrix).empty());
  CHECK(StateNamesOf({{"method", "muon"}, {"second_moment", "row"}, {"norm_control", "hyperball"}}, matrix) ==
        Names{"radius", "direction_moment", "filtered_grad"});
  CHECK(StateNamesOf({{"method", "muon"}, {"grafting", "adam"}}, matrix) == Names{"filtered_grad", "grafting"});
  CHECK(StateNamesOf({{"method", "sign"}, {"momentum", "0.5"}}, matrix) == Names{"filtered_grad", "momentum"});
  const Names adam = {"filtered_grad", "second_moment"};
  const PlanKeys muon = {{"method", "muon"}, {"second_moment", "row"}, {"norm_control", "hyperball"}};
  CHECK(StateNamesOf(muon, ParamOf(Shape::Of({5}))) == adam);
  CHECK(StateNamesOf(muon, ParamOf(Shape{})) == adam);
  for (const Role role : {Role::kVector, Role::kEmbedding, Role::kHead}) {
    ParamDesc table = matrix;
    table.role = role;
    CHECK(StateNamesOf(muon, table) == adam);
  }
}

TEST_CASE("each part of a fused parameter is a matrix of its own with all rows in one block") {
  std::unique_ptr<Plan> plan;
  ParamDesc desc = ParamOf(Shape::Of({2, 5, 4, 3}), 1);
  desc.fan = Fan::kInOut;
  desc.row_splits = {2, 1};
  CheckError(MakePlanOf({{"method", "muon"}}, desc, &plan), Code::kInvalid, "has one column");
  desc.shape = Shape::Of({2, 3, 4, 5});
  desc.row_splits = {2, 3};
  CheckOk(MakePlanOf({{"method", "muon"}}, desc, &plan));
  const std::vector<Block>& blocks = plan->data()->blocks;
  REQUIRE(blocks.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    const int64_t rows = i % 2 == 0 ? 2 : 3;
    CHECK(blocks[i].matrix_rows == rows);
    CHECK(blocks[i].matrix_columns == 12);
    CHECK(blocks[i].shape.View()[0] == 12);
    CHECK(blocks[i].shape.View()[1] == rows);
    CHECK(blocks[i].stride[0] == 5);
    CHECK(blocks[i].offset == (i < 2 ? 0 : 60) + (i % 2 == 0 ? 0 : 2));
    CHECK(blocks[i].is_orthogonalized);
    CHECK(blocks[i].orthogonal_rows == 12);
    CHECK(blocks[i].orthogonal_columns() == rows);
  }
}

TEST_CASE("soap_post orthogonalizes a tensor as a matrix in row-major order, and no vector") {
  const auto block_of = [](const Shape& shape, Fan fan, const PlanKeys& more = {}) {
    PlanKeys keys = {{"method", "soap"}, {"soap_post", "orthogonalize"}};
    keys.insert(keys.end(), more.begin(), more.end());
    ParamDesc desc = ParamOf(shape);
    desc.fan = fan;
    std::unique_ptr<Plan> plan;
    CheckOk(MakePlanOf(keys, desc, &plan));
    return plan->data()->blocks.at(0);
  };
  const Block out_in = block_of(Shape::Of({3, 4, 5}), Fan::kOutIn);
  REQUIRE(out_in.orthogonal_rows == 3);
  CHECK(out_in.orthogonal_columns() == 20);
  const Block in_out = block_of(Shape::Of({3, 4, 5}), Fan::kInOut);
  REQUIRE(in_out.orthogonal_rows == 12);
  CHECK(in_out.orthogonal_columns() == 5);
  const PlanKeys to_vector = {{"use_merge_dims", "true"}, {"precondition_1d", "true"}};
  const Block merged = block_of(Shape::Of({1, 8}), Fan::kOutIn, to_vector);
  CHECK(merged.order() == 1);
  CHECK(merged.orthogonal_rows == 1);
  const Block vector = block_of(Shape::Of({8}), Fan::kOutIn, to_vector);
  CHECK(vector.is_preconditioned);
  CHECK(!vector.has_orthogonal_direction());
  CHECK(!block_of(Shape::Of({3, 4}), Fan::kOutIn, {{"soap_post", "none"}}).has_orthogonal_direction());
}

}  // namespace
}  // namespace shampoo
