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

// Parameters whose states are a few KiB, or some MiB.
RankSpec SmallSpec();
RankSpec LargeSpec();

using Bytes = std::vector<std::vector<char>>;

// Copies of the parameters that share the work, as threads, with a communicator of all of them for checkpoints. What is
// in the states is a function of the number of steps alone.
class SavingJob {
 public:
  explicit SavingJob(const RankSpec& spec = SmallSpec(), int world = 2);
  ~SavingJob();
  SavingJob(const SavingJob&) = delete;
  SavingJob& operator=(const SavingJob&) = delete;

  int world() const { return grid_.world(); }
  shampoo_optimizer* optimizer(int rank) { return grid_[rank].optimizer; }
  int64_t steps() { return StepsOf(grid_[0], 0); }
  void StepTo(int64_t step);
  void TryStep() { grid_.Step(); }
  int64_t StateBytes(int rank) { return grid_[rank].PlanBytes("state", rank); }

  // All ranks at once; afterwards Status and Error tell how it went.
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // A rank's call goes through this, if it is set: around(rank, call) is to call it.
  std::function<void(int rank, const std::function<void()>& call)> around;
  // Files of a rank's calls, and allocations, with faults; until they are taken away by Undisturbed.
  void WatchFiles(int rank, FileWatch::Tell tell);
  void Undisturbed() { around = nullptr; }

  bool All(shampoo_status status) const { return grid_.All(status); }
  bool SameError() const { return grid_.SameError(); }
  std::string Errors() const { return grid_.Errors(); }
  const std::string& Error(int rank) { return grid_[rank].error; }
  shampoo_status Status(int rank) { return grid_[rank].status; }

  // The communicator of checkpoints: after it has failed, a new one is needed.
  ThreadComm& comm() { return *comm_; }
  void NewComm(bool with_abort = false);

  std::vector<Bytes> Everything() { return shampoo_test::Everything(&grid_); }
  // Without the parameters, which a checkpoint does not have.
  std::vector<Bytes> States();

 private:
  template <typename Function>
  void OnAll(Function function, const std::string& directory);

  Grid grid_;
  std::unique_ptr<ThreadComm> comm_;
  std::vector<shampoo_comm_ops> ops_;
  std::vector<shampoo_comm*> handles_;
};

// States of a job that has made so many steps.
std::vector<Bytes> StatesAfter(int64_t steps, const RankSpec& spec = SmallSpec());

}  // namespace shampoo_test
