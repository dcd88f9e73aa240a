// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/slot_memory.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

// The parameters are a matrix whose step is divided among threads, and enough biases for one block per thread. Biases
// have no factor matrices.
TEST_CASE(
    "each thread that may run a block has memory for a root, even if there are fewer factor matrices than threads") {
  StepFixture::Setup setup{.keys = {}, .params = StepFixture::Describe({{512, 512}, {8}, {8}, {8}, {8}, {8}})};
  setup.placement.threads = 6;
  const auto plan = StepFixture::MakePlan(setup);
  std::vector<const Block*> blocks;
  for (const Block& block : plan->blocks) blocks.push_back(&block);
  const WorkspaceLayout layout = WorkspaceLayout::For(blocks, LargestDim(*plan), plan->groups, plan->threads);
  REQUIRE(layout.slots == 6);
  REQUIRE(layout.item_slots == 6);
  CHECK(layout.root_slots == 6);
  CHECK(layout.RootAt(layout.item_slots - 1) + layout.root_bytes <= layout.RecoveryAt());
}

}  // namespace
}  // namespace shampoo
