// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Specifies which root solvers fail in faults_test.cc. The solvers in faulty_solver.cc fail accordingly.
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
  kReported,  // the solver reports the failure; SolveCans() cannot report a failure, and returns zeros instead
  kNan,       // the solver reports success, but the result contains NaN
  kGarbage,   // the solver reports success, but the result is wrong; all elements are finite
};

// Specifies which solver calls fail. A call is identified by the index of its factor matrix in the optimizer, by its
// rung of the recovery ladder, and by its number among the calls with this matrix and rung, counted from 0.
class FaultPlan {
 public:
  static constexpr int64_t kEveryMatrix = -1;
  static constexpr int64_t kEveryCall = -1;

  void Clear();
  void Add(int64_t matrix, Rung rung, Fault fault, int64_t call = kEveryCall);
  // Counts a call and returns whether the call must fail. If so, sets *fault.
  bool Find(int64_t matrix, Rung rung, Fault* fault);
  // Returns the number of calls with this matrix and rung that Find() has counted.
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

// Returns the FaultPlan that all solvers use.
FaultPlan& Faults();

}  // namespace shampoo::roots_test
