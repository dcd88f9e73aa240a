// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "core/backend/cpu/step_item.h"
#include "core/base/tiles.h"

namespace shampoo {

// Time that threads have spent in each phase of steps, summed over threads.
class PhaseTimes {
 public:
  using Clock = std::chrono::steady_clock;

  void Add(StepPhase phase, Clock::duration time) {
    const int64_t count = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    nanoseconds_[static_cast<size_t>(phase)].fetch_add(count, std::memory_order_relaxed);
  }
  double Seconds(StepPhase phase) const {
    return 1e-9 * static_cast<double>(nanoseconds_[static_cast<size_t>(phase)].load(std::memory_order_relaxed));
  }

 private:
  std::array<std::atomic<int64_t>, kStepPhaseCount> nanoseconds_{};
};

// Measures the time that threads spend in a phase, unless `times` is nullptr. The thread that creates the object is
// measured until the object is destroyed. Any other thread is measured while it runs a tile that was passed to Run().
class PhaseScope : public Tiles {
 public:
  PhaseScope(Tiles* tiles, PhaseTimes* times, StepPhase phase) : tiles_(tiles), times_(times), phase_(phase) {
    if (times_ != nullptr) began_ = PhaseTimes::Clock::now();
  }
  ~PhaseScope() override {
    if (times_ != nullptr) times_->Add(phase_, PhaseTimes::Clock::now() - began_);
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

  void Run(int64_t count, Tile tile, void* argument) override {
    if (times_ == nullptr) return tiles_->Run(count, tile, argument);
    const std::thread::id owner = std::this_thread::get_id();
    tiles_->ForEach(count, [&](int64_t i) {
      if (std::this_thread::get_id() == owner) return tile(argument, i);
      const PhaseScope helped(nullptr, times_, phase_);
      tile(argument, i);
    });
  }

 private:
  Tiles* tiles_;
  PhaseTimes* times_;
  StepPhase phase_;
  PhaseTimes::Clock::time_point began_;
};

}  // namespace shampoo
