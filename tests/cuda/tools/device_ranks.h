// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/tools/stage.h"
#include "tests/cuda/tools/staged_comm.h"

namespace shampoo_test {

// The communicators of DeviceRanks that take host memory; the others take device memory.
struct HostComms {
  bool of_replicas = false, of_shards = false;
};

// Copies of a model on one device, or shards of them, one for each rank, each with its own stream. Ranks are threads;
// the shards of a copy have consecutive ranks.
class DeviceRanks {
 public:
  using Work = std::function<shampoo_status(int rank, Model* model)>;

  // allocators: by rank; nullptr: the one of the spec. has_all_to_all: of the communicators.
  DeviceRanks(const ModelSpec& spec, int copies, int shards = 1, const shampoo_allocator* allocators = nullptr,
              bool has_all_to_all = false, HostComms on_host = {});
  ~DeviceRanks();
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;

  // Runs `work` on all ranks in parallel. Stores each result, with the text of the rank's last error.
  void OnEvery(const Work& work);
  void Step();
  void Status();  // waits
  // Creates the optimizer of a rank, which was destroyed, with a plan. Called on every rank.
  shampoo_status CreateAgain(int rank, const shampoo_plan* plan);
  // Do the same on every rank.
  void FillParams(uint64_t seed);
  void FillGradients(uint64_t seed);
  void Step(uint64_t seed);  // fills the gradients and steps
  void Train(uint64_t first, uint64_t last);
  // Copies the parameters and gradients of a model without shards, whose plan is the same otherwise.
  void SetFrom(const Model& whole);
  void SetGradientFrom(const Model& whole, int rank, size_t p);
  // Checks that the shards have exactly the parameters of a model without shards.
  void CheckShardsOf(const Model& whole);
  // Aborts all communicators, as a program does that has lost a rank: no rank waits any more.
  void Abort();

  int world() const { return static_cast<int>(ranks_.size()); }
  Model& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)].model; }
  shampoo_status status(int rank) const { return ranks_[static_cast<size_t>(rank)].status; }
  const std::string& text(int rank) const { return ranks_[static_cast<size_t>(rank)].text; }
  // Returns "" if every rank has ended with this status and, unless it is success, with the same text, which contains
  // all words. Otherwise returns the statuses and texts of all ranks.
  std::string Unless(shampoo_status status, const std::vector<std::string>& words = {}) const;
  bool SameParams();
  // Checks that each rank has the parameters of `alone`, except for rounding.
  void CheckParams(const Model& alone);
  // Returns the bytes of all ranks.
  std::vector<std::vector<double>> Params();
  // The communicators of a rank; nullptr: it has none of this kind.
  const shampoo_comm_ops* replica_ops(int rank) const { return OpsIn(replica_ops_, rank); }
  const shampoo_comm_ops* shard_ops(int rank) const { return OpsIn(shard_ops_, rank); }
  int timeouts();
  // The communicator of a rank with its copies, or with the other shards of its copy.
  ThreadComm& CommOf(int rank, bool of_shards);

 private:
  struct Rank {
    std::unique_ptr<TestStream> stream;
    std::unique_ptr<Model> model;
    shampoo_status status = SHAMPOO_OK;
    std::string text;
  };

  static const shampoo_comm_ops* OpsIn(const std::vector<shampoo_comm_ops>& ops, int rank) {
    return ops.empty() ? nullptr : &ops[static_cast<size_t>(rank)];
  }
  StagedComm* AddComm(int world);
  shampoo_comm_ops OpsOf(StagedComm* comm, int rank, bool on_host) const;

  bool has_all_to_all_;
  std::vector<std::unique_ptr<StagedComm>> comms_;
  std::vector<shampoo_comm_ops> replica_ops_;  // by rank
  std::vector<shampoo_comm_ops> shard_ops_;
  std::vector<Rank> ranks_;
};

}  // namespace shampoo_test
