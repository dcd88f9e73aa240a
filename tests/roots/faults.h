// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "core/roots/root.h"

namespace shampoo::roots_test {

// How a solver fails.
enum class Fault {
  kReported,  // LAPACK's info; an iteration that does not converge
  kNan,       // success, and NaN in the result
  kGarbage,   // success, and a result that is finite and wrong
};

// Where solvers fail, by factor matrix (in the order of the plan), rung, and how often that rung was called for that
// matrix before.
class FaultPlan {
 public:
  static constexpr int64_t kEveryMatrix = -1;
  static constexpr int64_t kEveryCall = -1;

  void Clear();
  void Add(int64_t matrix, Rung rung, Fault fault, int64_t call = kEveryCall);
  // Called by the solver: whether it is to fail this time.
  bool Find(int64_t matrix, Rung rung, Fault* fault);
  int64_t Calls(int64_t matrix, Rung rung);

 private:
  struct Entry {
    int64_t matrix;
    Rung rung;
    Fault fault;
    int64_t call;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::map<std::pair<int64_t, Rung>, int64_t> calls_;
};

FaultPlan& Faults();

}  // namespace shampoo::roots_test
