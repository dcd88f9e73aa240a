// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {
namespace {

int64_t ProductOf(const int64_t* dims, int32_t ndim) {
  return std::accumulate(dims, dims + ndim, int64_t{1}, std::multiplies<>());
}

shampoo_param_desc RandomParam(std::mt19937_64& random) {
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  std::vector<int64_t> shape(static_cast<size_t>(below(5)));
  for (int64_t& dim : shape) dim = 1 + below(7);
  shampoo_param_desc desc = Param("w", shape, kFloatDtypes[below(4)]);
  desc.stack_dims = static_cast<int32_t>(below(desc.ndim + 1));
  desc.shard_form = static_cast<int32_t>(below(3));
  if (desc.shard_form == 1) {
    const int64_t elements = ProductOf(desc.shape, desc.ndim);
    desc.flat_offset = below(elements);
    desc.flat_count = 1 + below(elements - desc.flat_offset);
  }
  for (int k = 0; desc.shard_form == 2 && k < desc.ndim; ++k) {
    desc.local_offset[k] = below(desc.shape[k]);
    desc.local_shape[k] = 1 + below(desc.shape[k] - desc.local_offset[k]);
  }
  return desc;
}

// Returns the index that element `at` of this rank's buffer has in the whole flattened parameter.
int64_t InWholeParameter(const shampoo_param_desc& desc, int64_t at) {
  if (desc.shard_form == 0) return at;
  if (desc.shard_form == 1) return desc.flat_offset + at;
  int64_t whole = 0;
  int64_t stride = 1;
  for (int k = desc.ndim - 1; k >= 0; --k) {
    whole += (desc.local_offset[k] + at % desc.local_shape[k]) * stride;
    at /= desc.local_shape[k];
    stride *= desc.shape[k];
  }
  return whole;
}

TEST_CASE("blocks cover every element of the buffer once and report their positions") {
  std::mt19937_64 random(21);
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    const int64_t largest = 1 + static_cast<int64_t>(random() % 6);
    const shampoo_param_desc desc = RandomParam(random);
    const Host host(Keys{{"max_preconditioner_dim", std::to_string(largest)},
                         {"use_merge_dims", random() % 2 == 0 ? "true" : "false"}},
                    {desc});
    const auto elements = static_cast<int64_t>(host.tensors[0].w.size());
    std::vector<int> covered(static_cast<size_t>(elements), 0);
    int64_t state_bytes = 0;
    int number = 0;
    for (const shampoo_block_info& block : BlocksOf(host.plan)) {
      CHECK(block.param == 0);
      CHECK(block.owner == 0);
      CHECK(block.shard_owner == 0);
      CHECK(block.of_shard == (elements == ProductOf(desc.shape, desc.ndim) ? 0 : 1));
      REQUIRE(block.ndim >= 1);
      state_bytes += block.state_bytes;
      for (int64_t n = 0; n < ProductOf(block.shape, block.ndim); ++n) {
        int64_t at = block.flat_offset;
        int64_t rest = n;
        for (int k = block.ndim - 1; k >= 0; --k) {
          at += rest % block.shape[k] * block.stride[k];
          rest /= block.shape[k];
        }
        REQUIRE(at < elements);
        ++covered[static_cast<size_t>(at)];
      }
      for (int k = 0; k < 8; ++k) {
        CHECK(block.shape[k] <= largest);
        if (k >= block.ndim) CHECK(block.shape[k] + block.stride[k] == 0);
      }
      const shampoo_state_entry entry = host.Find("w/" + std::to_string(number++) + "/filtered_grad").info;
      CHECK(entry.flat_offset == InWholeParameter(desc, block.flat_offset));
      CHECK(std::vector<int64_t>(entry.shape, entry.shape + 8) == std::vector<int64_t>(block.shape, block.shape + 8));
    }
    for (const int times : covered) CHECK(times == 1);
    const int64_t arena = PlanBytes(host.plan, 0, "state");
    CHECK(arena >= state_bytes);
    CHECK(arena <= state_bytes + 512);  // 512 allows for the step counter and the padding
  }
}

TEST_CASE("blocks are ordered by parameter, stacked tensor and chunk, with the first dim outermost") {
  shampoo_param_desc stacked = Param("layers", {2, 5, 4});
  stacked.stack_dims = 1;
  const Host host(Keys("max_preconditioner_dim=3 use_merge_dims=false"), {Param("v", {4}), stacked});
  const std::vector<std::vector<int64_t>> expected = {// parameter, offset, shape
                                                      {0, 0, 3},     {0, 3, 1},     {1, 0, 3, 3},  {1, 3, 3, 1},
                                                      {1, 12, 2, 3}, {1, 15, 2, 1}, {1, 20, 3, 3}, {1, 23, 3, 1},
                                                      {1, 32, 2, 3}, {1, 35, 2, 1}};
  std::vector<std::vector<int64_t>> found;
  for (const shampoo_block_info& block : BlocksOf(host.plan)) {
    found.push_back({block.param, block.flat_offset});
    found.back().insert(found.back().end(), block.shape, block.shape + block.ndim);
  }
  CHECK(found == expected);
}

TEST_CASE("plans of several ranks assign each block to one rank and report the bytes of each rank") {
  for (const int32_t world : {1, 3, 40}) {
    CAPTURE(world);
    shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
    plan_desc.replica_world = world;
    plan_desc.replica_rank = world - 1;
    plan_desc.shard_world = 5;
    plan_desc.shard_rank = 3;
    const PlanPtr plan = MakePlan("max_preconditioner_dim=8", plan_desc);
    for (const auto& param : {Param("a", {30, 20}), Param("b", {3, 3, 3}), Param("c", {50})}) AddParam(plan, param);
    RequireOk(shampoo_plan_finish(plan.get()));
    std::vector<int64_t> owned(static_cast<size_t>(world), 0);
    for (const shampoo_block_info& block : BlocksOf(plan.get())) {
      REQUIRE(block.owner >= 0);
      REQUIRE(block.owner < world);
      CHECK(block.shard_owner == 3);
      owned[static_cast<size_t>(block.owner)] += block.state_bytes;
    }
    for (int32_t rank = 0; rank < world; ++rank) {
      const int64_t of_blocks = owned[static_cast<size_t>(rank)];
      const int64_t state = PlanBytes(plan.get(), rank, "state");
      const int64_t workspace = PlanBytes(plan.get(), rank, "workspace");
      const int64_t comm = PlanBytes(plan.get(), rank, "comm");
      CHECK(state >= of_blocks);
      CHECK(state <= of_blocks + 512);
      CHECK(PlanBytes(plan.get(), rank, "total") == state + workspace);
      CHECK((comm > 0) == (world > 1));
      // A rank without blocks needs at most 512 bytes of workspace in addition to the buffer of the all-gather.
      CHECK((of_blocks > 0) == (workspace > comm * world + 512));
    }
  }
}

}  // namespace
}  // namespace shampoo_test
