// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/checkpoint/faults/allocations.h"
#include "tests/checkpoint/faults/file_calls.h"
#include "tests/distributed/grid.h"

namespace shampoo_test {

// Return specifications of jobs whose states take a few KiB (SmallSpec) or some MiB (LargeSpec).
RankSpec SmallSpec();
RankSpec LargeSpec();

using Bytes = std::vector<std::vector<char>>;

// A job whose saves and loads a test can disturb. The ranks are replicas, each on its own thread, and share a
// communicator for checkpoints. The states depend only on the number of steps.
class SavingJob {
 public:
  explicit SavingJob(const RankSpec& spec = SmallSpec(), int world = 2);
  ~SavingJob();
  SavingJob(const SavingJob&) = delete;
  SavingJob& operator=(const SavingJob&) = delete;

  int world() const { return grid_.world(); }
  Rank& operator[](int rank) { return grid_[rank]; }
  int64_t steps() { return StepsOf(grid_[0], 0); }
  void StepTo(int64_t step);
  void TryStep() { grid_.Step(); }
  int64_t StateBytes(int rank) { return grid_[rank].PlanBytes("state", rank); }

  // Save and Load run on all ranks at once.
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // If `around` is set, Save and Load call around(rank, call) on each rank, and `around` must call `call`, which saves
  // or loads.
  std::function<void(int rank, const std::function<void()>& call)> around;
  // Passes the file calls of a rank to the handler until Undisturbed is called.
  void WatchFiles(int rank, FileWatch::Handler handler);
  void Undisturbed() { around = nullptr; }

  bool All(shampoo_status status) const { return grid_.All(status); }
  bool SameError() const { return grid_.SameError(); }
  std::string Errors() const { return grid_.Errors(); }

  // The communicator for checkpoints. After a collective has failed, NewComm must replace the communicator.
  ThreadComm& comm() { return *comm_; }
  void NewComm(bool with_abort = false);

  std::vector<Bytes> Everything() { return shampoo_test::Everything(&grid_); }
  // Returns the states without the parameters, which are not part of a checkpoint.
  std::vector<Bytes> States();

 private:
  template <typename Function>
  void OnAll(Function function, const std::string& directory);

  Grid grid_;
  std::unique_ptr<ThreadComm> comm_;
  std::vector<shampoo_comm_ops> ops_;
  std::vector<shampoo_comm*> handles_;
};

}  // namespace shampoo_test
