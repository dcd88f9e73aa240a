// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of plans with the methods muon and sign, and with the keys that control norms.
#include <memory>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/state/entries.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

ParamDesc ParamOf(const std::vector<int64_t>& shape, int stack_dims = 0) {
  ParamDesc desc;
  desc.name = "w";
  desc.shape = Shape::Of(shape);
  desc.stack_dims = stack_dims;
  return desc;
}

// Returns a shard that consists of `count` elements of a tensor, from element `offset` on.
ParamDesc FlatShardOf(const std::vector<int64_t>& shape, int64_t offset, int64_t count) {
  ParamDesc desc = ParamOf(shape);
  desc.form = ShardForm::kFlat;
  desc.flat_offset = offset;
  desc.flat_count = count;
  return desc;
}

// Creates a plan of one parameter, and returns only the status.
Status PlanStatusOf(const OptionKeys& keys, const ParamDesc& desc, const Placement& placement = {}) {
  std::unique_ptr<Plan> plan;
  return StepFixture::CreatePlan({.keys = keys, .params = {desc}, .placement = placement}, &plan);
}
std::shared_ptr<const PlanData> PlanWith(const OptionKeys& keys, const ParamDesc& desc,
                                         const Placement& placement = {}) {
  return StepFixture::MakePlan({.keys = keys, .params = {desc}, .placement = placement});
}

Placement OnGpu() {
  Placement placement;
  placement.device = DeviceType::kCuda;
  return placement;
}

// Returns the names of all states of the parameter, in the order of ListEntries().
std::vector<std::string> StateNamesOf(const OptionKeys& keys, const ParamDesc& desc) {
  std::vector<std::string> names;
  for (const StateEntry& entry : ListEntries(*PlanWith(keys, desc))) {
    if (entry.block >= 0) names.emplace_back(entry.state());
  }
  return names;
}

TEST_CASE("method muon rejects a vector if route=off, and a matrix that is too large for LAPACK") {
  const OptionKeys off = "method=muon route=off";
  CheckError(PlanStatusOf(off, ParamOf({5})), Code::kInvalid,
             "parameter \"w\": method muon needs a matrix, and the parameter has the shape (5): put the parameter in a "
             "group with method=adam, or set route=auto");
  CheckError(PlanStatusOf(off, ParamOf({})), Code::kInvalid, "method muon needs a matrix, and the parameter has");
  CheckError(PlanStatusOf(off, ParamOf({3, 5}, 1)), Code::kInvalid,
             "method muon needs a matrix, and a stacked tensor has the shape (5)");
  CheckOk(PlanStatusOf(off, ParamOf({1, 5})));
  CheckOk(PlanStatusOf("method=muon", ParamOf({5})));
  CheckError(PlanStatusOf("method=muon", ParamOf({32751, 32751})), Code::kInvalid,
             "a matrix of shape (32751, 32751) is too large for method muon: expected min(rows, columns) of at most "
             "32750, and at most 2^31 - 1 elements; divide the matrix with row_splits or stack_dims, or use another "
             "method");
  CheckError(PlanStatusOf("method=muon", ParamOf({1 << 16, 1 << 15, 2})), Code::kInvalid,
             "is too large for method muon");
}

TEST_CASE("a shard is rejected by method muon without muon_local, and by keys that use norms of whole tensors") {
  const ParamDesc shard = FlatShardOf({6, 5}, 10, 15);
  CheckError(
      PlanStatusOf("method=muon", shard), Code::kInvalid,
      "parameter \"w\" is divided among shard ranks: expected a whole parameter, because method muon orthogonalizes "
      "whole matrices; set shard_mode=gather, or use another group for the parameter; or set muon_local=true "
      "to orthogonalize each shard alone");
  for (const char* const key : {"dual_norm_scale=true", "update_norm=rms", "max_update_rms=1", "norm_control=radial",
                                "update_floor=1", "grafting=adam"}) {
    CAPTURE(std::string(key));
    CheckError(
        PlanStatusOf(Cat("method=sign ", key), shard), Code::kInvalid,
        Cat("parameter \"w\" is divided among shard ranks: expected a whole parameter, because its group uses norms of "
            "whole tensors (one of the keys ",
            kNormKeys, "); set shard_mode=gather"));
  }
  CheckOk(PlanStatusOf("method=sign", shard));
  // Parameters that method adam updates, such as embeddings, may be divided.
  ParamDesc embedding = shard;
  embedding.role = Role::kEmbedding;
  CheckOk(PlanStatusOf("method=muon update_norm=rms", embedding));
  CheckOk(PlanStatusOf("method=muon muon_local=true", shard));
}

TEST_CASE(
    "second_moment=row, second_moment=short and update_floor_rows are rejected for a shard, even with muon_local") {
  const ParamDesc shard = FlatShardOf({2, 50, 3}, 3, 57);
  const OptionKeys local = "method=muon muon_local=true";
  const auto status = [&](const OptionKeys& more) { return PlanStatusOf(local + more, shard); };
  const char* const text =
      "parameter \"w\" is divided among shard ranks: expected a whole parameter, because whole rows and columns "
      "are needed with second_moment=row, second_moment=short or update_floor_rows=true, even with muon_local";
  CheckError(status("second_moment=row"), Code::kInvalid, text);
  CheckError(status("second_moment=short"), Code::kInvalid, text);
  CheckError(status("update_floor=0.5 update_floor_rows=true"), Code::kInvalid, text);
  CheckOk(status("second_moment=element update_floor=0.5"));
  CheckOk(status("update_floor_rows=true"));  // update_floor is 0, so there is no floor
}

TEST_CASE(
    "a GPU plan accepts methods muon and sign, norm_control, and keys of later releases of the reference "
    "implementation") {
  std::vector<OptionKeys> accepted = {"method=muon orthogonalization=exact",
                                      "method=soap soap_post=orthogonalize orthogonalization=exact",
                                      "method=muon muon_math=bf16",
                                      "method=sign",
                                      "shape_scale=muon",
                                      "trace_scaling=0.5",
                                      "count_empty_steps=true",
                                      "momentum=0.5 momentum_dampening=0.5",
                                      "drop_weighting=true"};
  for (const char* const control : {"hyperball", "relative", "radial_brake", "radial"}) {
    accepted.push_back(Cat("cautious_decay=true update_floor=0.5 norm_control=", control));
  }
  for (const OptionKeys& keys : accepted) {
    CAPTURE(keys.text);
    CheckOk(PlanStatusOf(keys, ParamOf({6, 5}), OnGpu()));
  }
}

TEST_CASE("a GPU plan with averages has as many bytes of state as a CPU plan, for replicas and for gathered shards") {
  for (const char* const average : {"averaging=gpa", "averaging=schedule_free", "weight_ema=0.9"}) {
    for (const bool gathers : {false, true}) {
      CAPTURE(std::string(average));
      CAPTURE(gathers);
      const OptionKeys keys = Cat(average, " shard_mode=", gathers ? "gather" : "local");
      Placement ranks;
      (gathers ? ranks.shard_world : ranks.replica_world) = 2;
      const auto on_cpu = PlanWith(keys, ParamOf({6, 5}), ranks);
      ranks.device = DeviceType::kCuda;
      const auto on_gpu = PlanWith(keys, ParamOf({6, 5}), ranks);
      CHECK(on_gpu->blocks[0].average_offset().present());
      CHECK(on_gpu->state_bytes() == on_cpu->state_bytes());
    }
  }
}

TEST_CASE("muon_math=bf16 needs a plan for a GPU and computation_dtype=f32") {
  const OptionKeys keys = "method=muon muon_math=bf16";
  CheckError(PlanStatusOf(keys, ParamOf({6, 5})), Code::kUnsupported,
             "key muon_math: the value bf16 is not supported on the CPU: expected f32, or a plan for a GPU "
             "(device_type SHAMPOO_CUDA)");
  const OptionKeys wide = keys + "computation_dtype=f64";
  CheckError(PlanStatusOf(wide, ParamOf({6, 5}), OnGpu()), Code::kInvalid,
             "key muon_math is bf16, but parameter \"w\" has computation dtype f64: expected muon_math=f32, or "
             "computation_dtype=f32");
  CheckOk(PlanStatusOf(wide, ParamOf({6}), OnGpu()));  // a vector is not orthogonalized
  // muon_math has no effect on exact orthogonalization.
  CheckOk(PlanStatusOf(wide + "orthogonalization=exact", ParamOf({6, 5}), OnGpu()));
}

TEST_CASE("with method muon, hidden matrices have a filtered gradient, and other parameters have the states of adam") {
  using Names = std::vector<std::string>;
  const ParamDesc matrix = ParamOf({6, 5});
  CHECK(StateNamesOf("method=muon", matrix) == Names{"filtered_grad"});
  CHECK(StateNamesOf("method=muon beta1=0", matrix).empty());
  CHECK(StateNamesOf("method=muon second_moment=row norm_control=hyperball", matrix) ==
        Names{"radius", "direction_moment", "filtered_grad"});
  CHECK(StateNamesOf("method=muon grafting=adam", matrix) == Names{"filtered_grad", "grafting"});
  CHECK(StateNamesOf("method=sign momentum=0.5", matrix) == Names{"filtered_grad", "momentum"});
  const Names adam = {"filtered_grad", "second_moment"};
  const OptionKeys muon = "method=muon second_moment=row norm_control=hyperball";
  CHECK(StateNamesOf(muon, ParamOf({5})) == adam);
  CHECK(StateNamesOf(muon, ParamOf({})) == adam);
  for (const Role role : {Role::kVector, Role::kEmbedding, Role::kHead}) {
    ParamDesc table = matrix;
    table.role = role;
    CHECK(StateNamesOf(muon, table) == adam);
  }
}

TEST_CASE("each part of a fused parameter is one block with method muon") {
  ParamDesc desc = ParamOf({2, 5, 4, 3}, 1);
  desc.fan = Fan::kInOut;
  desc.row_splits = {2, 1};
  CheckError(PlanStatusOf("method=muon", desc), Code::kInvalid, "has one column");
  desc.shape = Shape::Of({2, 3, 4, 5});
  desc.row_splits = {2, 3};
  const std::vector<Block> blocks = PlanWith("method=muon", desc)->blocks;
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

TEST_CASE(
    "soap_post=orthogonalize skips vectors and orthogonalizes other tensors as matrices whose shape depends on fan") {
  const auto block_of = [](const std::vector<int64_t>& shape, Fan fan, const OptionKeys& more = {}) {
    ParamDesc desc = ParamOf(shape);
    desc.fan = fan;
    return PlanWith("method=soap soap_post=orthogonalize" + more, desc)->blocks.at(0);
  };
  const Block out_in = block_of({3, 4, 5}, Fan::kOutIn);
  REQUIRE(out_in.orthogonal_rows == 3);
  CHECK(out_in.orthogonal_columns() == 20);
  const Block in_out = block_of({3, 4, 5}, Fan::kInOut);
  REQUIRE(in_out.orthogonal_rows == 12);
  CHECK(in_out.orthogonal_columns() == 5);
  const OptionKeys to_vector = "use_merge_dims=true precondition_1d=true";
  const Block merged = block_of({1, 8}, Fan::kOutIn, to_vector);
  CHECK(merged.order() == 1);
  CHECK(merged.orthogonal_rows == 1);
  const Block vector = block_of({8}, Fan::kOutIn, to_vector);
  CHECK(vector.is_preconditioned);
  CHECK(!vector.has_orthogonal_direction());
  CHECK(!block_of({3, 4}, Fan::kOutIn, "soap_post=none").has_orthogonal_direction());
}

}  // namespace
}  // namespace shampoo
