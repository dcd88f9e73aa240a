// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/step/host_step.h"
#include "tests/core/step_fixture.h"

namespace shampoo {

// A StepFixture, which is one rank of a test, with the StepContext that makes its steps.
struct ContextFixture : StepFixture {
  using StepFixture::StepFixture;
  // Calls StepContext::List(), which makes an item for each block of the parameters that have gradients.
  Status List() {
    context.participants().ChooseOwnGradients(inputs().buffers);
    return context.List();
  }
  // Returns the block number of each item.
  template <typename Items>
  std::vector<int64_t> BlocksOf(const Items& items) const {
    std::vector<int64_t> blocks;
    for (const StepItem& item : items) blocks.push_back(context.BlockOf(item));
    return blocks;
  }

  StepContext context{inputs(), backend().get(), TargetsInBuffers(inputs())};
};

}  // namespace shampoo
