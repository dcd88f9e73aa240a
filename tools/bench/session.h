// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/cases.h"
#include "tools/bench/work.h"

namespace bench {

// How a case is run.
struct Settings {
  int threads = 1;
  int64_t block = 1024;
  std::string grafting = "adam";
  std::string state_dtype = "f32";
  std::vector<std::pair<std::string, std::string>> keys;  // any others
  bool track_times = false;
};

struct Memory {
  int64_t state = 0;
  int64_t workspace = 0;
};

// An optimizer over the parameters of a case, whose next step is ordinary or has all roots, as is wanted.
class Session {
 public:
  Session(const Case& of, const Settings& settings);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns the seconds of one step. with_roots: all inverse roots are refreshed in it.
  double TimeStep(bool with_roots);
  double Stat(const std::string& key) const;

  StepWork work() const { return WorkOf(plan_, optimizer_, square_roots_); }
  Memory memory() const;

 private:
  void BindBuffers(const Case& of);
  void FillFactors();
  void SetStepCounter(int64_t step);

  shampoo_plan* plan_ = nullptr;
  shampoo_optimizer* optimizer_ = nullptr;
  std::vector<float> params_;
  std::vector<float> grads_;
  int64_t counter_entry_ = -1;
  bool square_roots_;
  bool has_factors_ = false;  // not, if all parameters are vectors that follow the grafting method alone
};

// Whether all roots are inverse square roots in float32 by the default method: no key says otherwise.
bool TakesSquareRoots(const Settings& settings);

// The blocks of a case; nothing is allocated for them.
std::vector<Dims> BlockShapes(const Case& of, const Settings& settings);

// Whether the library has the key track_times, and so the statistics seconds.*.
bool CanTrackTimes();

}  // namespace bench
