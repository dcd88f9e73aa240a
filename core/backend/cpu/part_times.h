// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "core/backend/backend.h"
#include "core/base/tiles.h"

namespace shampoo {

// Thread time of the parts of steps, summed over threads.
class PartTimes {
 public:
  using Clock = std::chrono::steady_clock;

  void Add(StepPart part, Clock::duration time) {
    const int64_t count = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    nanoseconds_[static_cast<size_t>(part)].fetch_add(count, std::memory_order_relaxed);
  }
  double Seconds(StepPart part) const {
    return 1e-9 * static_cast<double>(nanoseconds_[static_cast<size_t>(part)].load(std::memory_order_relaxed));
  }

 private:
  std::array<std::atomic<int64_t>, kStepPartCount> nanoseconds_{};
};

// While it lives, its thread is at this part; so are the threads that take tiles which are divided by it. times
// nullptr: nothing is measured.
class PartScope : public Tiles {
 public:
  PartScope(Tiles* tiles, PartTimes* times, StepPart part) : tiles_(tiles), times_(times), part_(part) {
    if (times_ != nullptr) began_ = PartTimes::Clock::now();
  }
  ~PartScope() override {
    if (times_ != nullptr) times_->Add(part_, PartTimes::Clock::now() - began_);
  }
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;

  void Run(int64_t count, Tile tile, void* argument) override {
    if (times_ == nullptr) return tiles_->Run(count, tile, argument);
    const std::thread::id owner = std::this_thread::get_id();
    tiles_->ForEach(count, [&](int64_t i) {
      if (std::this_thread::get_id() == owner) return tile(argument, i);
      const PartScope helped(nullptr, times_, part_);
      tile(argument, i);
    });
  }

 private:
  Tiles* tiles_;
  PartTimes* times_;
  StepPart part_;
  PartTimes::Clock::time_point began_;
};

}  // namespace shampoo
