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

// Settings of an optimizer that is measured.
struct Settings {
  int threads = 1;
  int64_t block = 1024;  // max_preconditioner_dim
  std::string grafting = "adam";
  std::string state_dtype = "f32";
  std::vector<std::pair<std::string, std::string>> keys;  // other keys, with their values
  bool track_times = false;
  // If above 0, consecutive steps are measured, and period is their precondition_frequency. If 0, steps are measured
  // one by one, and only TimeStep(true) computes roots.
  int64_t period = 0;
  Device* device = nullptr;  // nullptr: the CPU
};

// Seconds of a step. On the CPU, host and device are equal.
struct StepTime {
  double host = 0;    // time of the call that makes or enqueues the step
  double device = 0;  // time that the work of the step takes in the stream
};

// Bytes of an optimizer, as shampoo_plan_bytes() returns them.
struct Memory {
  int64_t state = 0;
  int64_t workspace = 0;
};

// An optimizer for the parameters of a case. The class times ordinary steps, which compute no inverse roots, and steps
// that compute all roots.
class Session {
 public:
  Session(const Case& model, const Settings& settings);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Times one step. If with_roots is true, first sets the step counter so that the timed step refreshes all inverse
  // roots; on a device, an untimed step then precedes the timed step. Settings::period must be 0.
  StepTime TimeStep(bool with_roots);
  // Makes and times one step. The step refreshes roots only if a refresh is due (Settings::period).
  StepTime TimeNextStep();
  // Makes consecutive steps and returns their total seconds. Does not wait for the device between these steps.
  double TimeSteps(int64_t steps);
  double Stat(const std::string& key) const;

  StepWork work() const { return WorkOf(plan_, optimizer_, square_roots_); }
  Memory memory() const;

 private:
  void BindBuffers(const Case& model);
  void FillFactors();
  void SetStepCounter(int64_t step);
  void Step();
  // Waits until a device has finished all steps. Ends the program if the device reports that a step failed.
  void Wait();
  void* stream() const { return device_ != nullptr ? device_->stream() : nullptr; }

  Device* device_;
  int64_t frequency_;
  shampoo_plan* plan_ = nullptr;
  shampoo_optimizer* optimizer_ = nullptr;
  std::vector<float> params_;  // empty on a device, like grads_
  std::vector<float> grads_;
  std::vector<void*> device_memory_;    // the parameters, at first zeros, and the gradients; empty on the CPU
  int64_t counter_entry_ = -1;          // index of the state entry "group.0/step"
  std::vector<int64_t> count_entries_;  // indices of the state entries named gradient_count
  bool square_roots_;
  bool has_factors_ = false;  // whether any block has factor matrices
};

// Returns whether all roots are inverse square roots in float32, computed with the default of root_method. Returns
// false if the settings contain a key that can change the method, dtype or power of roots, even if the key has its
// default value.
bool UsesSquareRoots(const Settings& settings);

// Returns the shapes of the blocks of a case.
std::vector<Dims> BlockShapes(const Case& model, const Settings& settings);

// Returns whether the library has the key track_times, and therefore the counters seconds.*.
bool CanTrackTimes();

}  // namespace bench
