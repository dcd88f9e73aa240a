// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/backend/cuda/interface.h"

namespace shampoo_test {

// Controls the behaviour of the fake plugin and records its calls. Its device memory is host memory. A step only
// advances the counters, and its report is visible when the host waits for it.
struct FakeDevice {
  shampoo::cuda::Description description{1, 12060, 12060, ""};
  bool capturing = false;
  bool fails_create = false;  // create of engines with blocks fails
  // The report of the next step; with several ranks, of this rank.
  int32_t rank = 0;
  shampoo::cuda::StepReport finds{};  // the rejection and its position
  bool skips = false;
  int64_t skipped_blocks = 0;
  int64_t skipped_updates = 0;
  bool fails_roots = false;
  // Arguments of the last call.
  std::vector<int64_t> expected_step;
  std::vector<shampoo::RootTask> tasks;
  shampoo::cuda::StepArgs args{};
  int64_t steps_given = 0;
  int64_t waits = 0;      // waits for steps
  int64_t downloads = 0;  // downloads, which also wait
  int64_t engines = 0;    // existing engines
  const void* stream = nullptr;

  // Replays the captured step.
  void (*replay)() = nullptr;
};

inline constexpr char kFakeSymbol[] = "shampoo_fake_device";
using FakeFunction = FakeDevice* (*)();

}  // namespace shampoo_test
