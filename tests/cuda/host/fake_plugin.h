// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/backend/cuda/interface.h"

namespace shampoo_test {

// How the fake plugin behaves, and what it was asked. Its device is memory of the host; a step advances the counters
// and no more, and what it has found is told when it is waited for.
struct FakeDevice {
  shampoo::cuda::Description description{1, 12060, 12060, ""};
  bool capturing = false;
  bool fails_create = false;  // of engines with blocks
  // Of the next step; with several ranks of this one.
  int32_t rank = 0;
  shampoo::cuda::StepReport finds{};  // refusal, and where
  bool skips = false;
  int64_t skipped_blocks = 0;
  int64_t skipped_updates = 0;
  bool fails_roots = false;
  // Of the last.
  std::vector<int64_t> expected_step;
  std::vector<shampoo::RootTask> tasks;
  shampoo::cuda::StepArgs args{};
  int64_t steps_given = 0;
  int64_t waits = 0;      // for steps
  int64_t downloads = 0;  // which wait, too
  int64_t engines = 0;    // that live
  const void* stream = nullptr;

  // Runs the step that was captured once more.
  void (*replay)() = nullptr;
};

inline constexpr char kFakeSymbol[] = "shampoo_fake_device";
using FakeFunction = FakeDevice* (*)();

}  // namespace shampoo_test
