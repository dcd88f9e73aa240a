// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/cases.h"
#include "tools/bench/device.h"
#include "tools/bench/work.h"

namespace bench {

// Settings of a run.
struct Settings {
  int threads = 1;
  int64_t block = 1024;
  std::string grafting = "adam";
  std::string state_dtype = "f32";
  std::vector<std::pair<std::string, std::string>> keys;  // other keys
  bool track_times = false;
  int64_t period = 0;        // precondition_frequency of steps in a row; 0: Session chooses when roots are computed
  Device* device = nullptr;  // nullptr: the CPU
};

// Seconds of a step. On the CPU both numbers are the same.
struct StepTime {
  double host = 0;    // in the call that makes or enqueues the step
  double device = 0;  // of the step's work in its stream
};

struct Memory {
  int64_t state = 0;
  int64_t workspace = 0;
};

// An optimizer over the parameters of a case, which can make ordinary steps and steps with all roots.
class Session {
 public:
  Session(const Case& model, const Settings& settings);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns the time of one step. with_roots: the step refreshes all inverse roots.
  StepTime TimeStep(bool with_roots);
  // Makes and times the next step, with or without a refresh of roots.
  StepTime TimeNextStep();
  // Returns the seconds of `steps` steps in a row, which wait for the device only at the end.
  double TimeSteps(int64_t steps);
  double Stat(const std::string& key) const;

  StepWork work() const { return WorkOf(plan_, optimizer_, square_roots_); }
  Memory memory() const;

 private:
  void BindBuffers(const Case& model);
  void FillFactors();
  void SetStepCounter(int64_t step);
  void Step();
  // Waits for the device, and for its report of the steps so far.
  void Wait();
  void* stream() const { return device_ != nullptr ? device_->stream() : nullptr; }

  Device* device_;
  int64_t frequency_;
  shampoo_plan* plan_ = nullptr;
  shampoo_optimizer* optimizer_ = nullptr;
  std::vector<float> params_;  // on a device, they and the gradients are copied there
  std::vector<float> grads_;
  std::vector<void*> device_memory_;
  int64_t counter_entry_ = -1;
  bool square_roots_;
  bool has_factors_ = false;  // false if all parameters are vectors that use the grafting method alone
};

// Returns whether all roots are inverse square roots that are computed by the default method in float32.
bool UsesSquareRoots(const Settings& settings);

// Returns the shapes of the blocks of a case.
std::vector<Dims> BlockShapes(const Case& model, const Settings& settings);

// Returns whether the library has the key track_times, and therefore the counters seconds.*.
bool CanTrackTimes();

}  // namespace bench
