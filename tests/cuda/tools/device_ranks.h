// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/tools/rank_kind.h"
#include "tests/cuda/tools/stage.h"
#include "tests/cuda/tools/staged_comm.h"

namespace shampoo_test {

// Ranks of a job on one device or on the CPU. Each is a thread with its own stream, and has a replica of a model or a
// shard of a replica. The shards of a replica have consecutive ranks.
class DeviceRanks {
 public:
  using Work = std::function<shampoo_status(int rank, Model* model)>;

  // The keys of `spec` take precedence over those of `kind`. allocators: one for each rank; nullptr: all ranks use the
  // allocator of `spec`.
  DeviceRanks(const ModelSpec& spec, const RankKind& kind, const shampoo_allocator* allocators = nullptr);
  DeviceRanks(const ModelSpec& spec, int copies, int shards = 1)
      : DeviceRanks(spec, RankKind{"local", copies, shards}) {}
  ~DeviceRanks();
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;

  // Runs `work` on all ranks in parallel. Stores the status of each rank and the message of its error.
  void OnEvery(const Work& work);
  void Step();
  void Status();       // calls shampoo_optimizer_status, which waits for the device, on all ranks
  void MustSucceed();  // calls Status(), and requires that no step was rejected
  // Makes a step, and checks that all ranks return this status with the same error; see DifferencesFrom().
  void CheckStep(shampoo_status status = SHAMPOO_OK, const std::vector<std::string>& words = {});
  // Creates an optimizer with `plan` to replace the one that was destroyed. The work of OnEvery() calls this function
  // on each rank.
  shampoo_status CreateAgain(int rank, const shampoo_plan* plan);
  // These functions call the function of Model with the same name for every rank.
  void FillGradients(uint64_t seed);
  void Step(uint64_t seed);                   // fills the gradients and steps
  void Train(uint64_t first, uint64_t last);  // requires that the calls succeed
  // Save or load a checkpoint over a communicator of all ranks, and require that this succeeds.
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // Saves or loads, and stores the statuses of the ranks. First calls prepare(comm) with the communicator of all ranks.
  // Returns the number of collectives over this communicator.
  int64_t TryToSaveOrLoad(
      bool saves, const std::string& directory,
      const std::function<void(ThreadComm* comm)>& prepare = [](ThreadComm*) {});
  // Copy the parameters and gradients, or only the gradients, from a model without shards. Apart from the shards, the
  // plans must be equal.
  void SetFrom(const Model& whole);
  void SetGradientsFrom(const Model& whole);
  // Checks that the parameters and outputs of all shards are equal to those of a model without shards. On a GPU, the
  // largest difference relative to the largest element may be `tolerance` or two machine epsilons of the dtype of the
  // parameter, whichever is larger: with shards, batches have other numbers of matrices, by which cuBLAS and cuSOLVER
  // choose kernels.
  void CheckShardsOf(const Model& whole, double tolerance);
  // Aborts all communicators, as a program does after it has lost a rank. No rank waits in them afterwards.
  void Abort();

  int world() const { return static_cast<int>(ranks_.size()); }
  std::vector<Model*> models() const;
  Model& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)].model; }
  shampoo_status status(int rank) const { return ranks_[static_cast<size_t>(rank)].status; }
  const std::string& text(int rank) const { return ranks_[static_cast<size_t>(rank)].text; }
  // Returns "" if the last call returned `status` with the same error message on every rank and the message contains
  // all words. Otherwise returns the statuses and messages of all ranks.
  std::string DifferencesFrom(shampoo_status status, const std::vector<std::string>& words = {}) const;
  bool SameParams();
  // Checks that each rank has the parameters of `alone`, except for rounding.
  void CheckParams(const Model& alone);
  // Returns the result of BitsOf() for the model of each rank.
  std::vector<std::vector<char>> Bits() const;
  // Returns the parameters of rank 0, then those of rank 1, and so on.
  std::vector<std::vector<double>> Params();
  // Return the communicators of a rank; nullptr: the rank has none of this kind.
  const shampoo_comm_ops* replica_ops(int rank) const { return OpsIn(replica_ops_, rank); }
  const shampoo_comm_ops* shard_ops(int rank) const { return OpsIn(shard_ops_, rank); }
  int timeouts();
  // Returns the communicator that connects a rank with the other replicas, or with the other shards of its replica.
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

  bool on_device_, has_all_to_all_;
  std::vector<std::unique_ptr<StagedComm>> comms_;
  std::vector<shampoo_comm_ops> replica_ops_;  // by rank
  std::vector<shampoo_comm_ops> shard_ops_;
  std::vector<Rank> ranks_;
};

}  // namespace shampoo_test
