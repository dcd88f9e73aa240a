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

// Ranks that train one model together, on one device or on the CPU. Each rank holds a replica of the model or a shard
// of a replica. On a device, each rank has its own stream. The shards of a replica have consecutive ranks.
class DeviceRanks {
 public:
  using Work = std::function<shampoo_status(int rank, Model* model)>;

  // The keys of `spec` take precedence over those of `kind`. `allocators` has one allocator for each rank. If it
  // is nullptr, all ranks use the allocator of `spec`.
  DeviceRanks(const ModelSpec& spec, const RankKind& kind, const shampoo_allocator* allocators = nullptr);
  DeviceRanks(const ModelSpec& spec, int copies, int shards = 1)
      : DeviceRanks(spec, RankKind{"local", copies, shards}) {}
  ~DeviceRanks();
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;

  // Runs `work` on all ranks in parallel, one thread per rank. Stores the status and the error message of each rank.
  void OnEvery(const Work& work);
  void Step();
  void Status();       // calls Model::Status() on all ranks
  void MustSucceed();  // calls Status(), and requires SHAMPOO_OK on all ranks
  // Makes a step, and checks that DifferencesFrom() returns "" for this status and these words.
  void CheckStep(shampoo_status status = SHAMPOO_OK, const std::vector<std::string>& words = {});
  // Creates an optimizer with `plan` on a rank whose optimizer has been destroyed. All ranks must call this function in
  // parallel, from the work of OnEvery().
  shampoo_status CreateAgain(int rank, const shampoo_plan* plan);
  void FillGradients(uint64_t seed);          // calls Model::FillGradients() for all ranks
  void Step(uint64_t seed);                   // fills the gradients and makes a step
  void Train(uint64_t first, uint64_t last);  // makes a step with each seed, and requires that the step succeeds
  // Save or load a checkpoint over a communicator of all ranks, and require that this succeeds.
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // Calls prepare() with a communicator that connects all ranks. Then saves a checkpoint over this communicator or, if
  // `saves` is false, loads one. Stores the status of each rank. Returns the number of collectives of rank 0.
  int64_t TryToSaveOrLoad(
      bool saves, const std::string& directory,
      const std::function<void(ThreadComm* comm)>& prepare = [](ThreadComm*) {});
  // Copy the parameters and gradients, or only the gradients, from a model without shards. The ModelSpec of this
  // model must have the same `params` as the ModelSpec of the ranks.
  void SetFrom(const Model& whole);
  void SetGradientsFrom(const Model& whole);
  // Checks that the parameters and outputs of all shards are equal to those of a model without shards. On a GPU, their
  // Distance() may be up to the larger of `tolerance` and two machine epsilons of the parameter's dtype, because
  // cuBLAS and cuSOLVER choose kernels by the number of matrices in a batch, and shards change this number.
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
  // Return the callbacks with which the rank exchanges data with the other replicas or the other shards. Return nullptr
  // if the ranks have no such communicators.
  const shampoo_comm_ops* replica_ops(int rank) const { return OpsIn(replica_ops_, rank); }
  const shampoo_comm_ops* shard_ops(int rank) const { return OpsIn(shard_ops_, rank); }
  int timeouts();  // the number of waits in collectives that ended in a timeout, over all ranks
  // Returns the communicator that connects a rank with the other shards of its replica or, if of_shards is false, with
  // the other replicas of its shard.
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
