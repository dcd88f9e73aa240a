// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "tests/distributed/job.h"

namespace shampoo_test {

using Tensors = std::vector<std::vector<float>>;
// For each shard rank, the part of each parameter that this rank holds.
using Shards = std::vector<std::vector<ParamSpec>>;

enum class Division { kFlat, kRows };  // shards are ranges of the flattened parameter, or ranges of rows

// The number of ranks that train one model together, and how the ranks communicate.
struct Kind {
  int replicas, shards;
  const char* shard_mode = "local";
  bool all_to_all = true;  // whether communicators of shard ranks have all_to_all

  int world() const { return replicas * shards; }
  bool gathers() const { return shard_mode == std::string("gather"); }
};
std::ostream& operator<<(std::ostream& out, const Kind& kind);

// 2 or 4 ranks that are replicas, or that hold the shards of one replica.
inline constexpr Kind kReplicasOrShards[] = {{2, 1}, {4, 1}, {1, 2}, {1, 4}};

// The number of collectives that a successful Grid::Create() makes over each communicator that steps use.
inline constexpr int64_t kCallsOfCreate = 2;

// Divides parameters into shards of the same size, except that the last shards may be smaller or empty.
Shards Divide(const std::vector<ParamSpec>& whole, Division division, int ranks);
// Returns the parts of the tensors `whole` that a rank holds. `shard` describes the parameters of the rank.
Tensors PartOf(const std::vector<ParamSpec>& shard, const Tensors& whole);

// Ranks that train one model together. There are one or more replicas of the parameters, and each replica is divided
// into one or more shards. The ranks are threads. The ranks that hold one replica have consecutive numbers. Steps use
// one ThreadComm for the replicas of each shard, and one for the shards of each replica. A ThreadComm with a single
// rank is not used. Checkpoints use another ThreadComm, which connects all ranks.
class Grid {
 public:
  // whole: the specification of a single rank with the whole parameters. The grid derives the specifications of its
  // ranks from `whole`.
  Grid(const RankSpec& whole, int replicas, const Shards& shards, bool with_abort = false);
  // These constructors divide the parameters into flat shards.
  Grid(const RankSpec& whole, int replicas, int shards, bool with_abort = false);
  Grid(const RankSpec& whole, const Kind& kind, bool with_abort = false);

  int world() const { return replicas_ * shards_; }
  int replicas() const { return replicas_; }
  int shards() const { return shards_; }
  RankSpec& spec(int rank) { return specs_[static_cast<size_t>(rank)]; }  // a test may change it before Create()
  // Returns the specification of a single rank that trains shard `shard` alone, without communicators.
  RankSpec Alone(int shard) const;
  ThreadComm& replicas_of(int shard) { return *replica_comms_[static_cast<size_t>(shard)]; }
  ThreadComm& shards_of(int replica) { return *shard_comms_[static_cast<size_t>(replica)]; }
  // Returns the communicator that connects all ranks in steps. replicas() or shards() must be 1.
  ThreadComm& comm() { return replicas_ > 1 ? replicas_of(0) : shards_of(0); }
  ThreadComm& all() { return *all_comm_; }  // the communicator of checkpoints
  std::vector<ThreadComm*> comms();         // the communicators of steps
  // A collective fails on a rank that waits longer than `patience`.
  void SetPatience(std::chrono::milliseconds patience);
  void SetAllToAll(bool with);  // whether communicators of shard ranks have all_to_all; call before Create()
  int timeouts() const;         // number of timeouts, over all ranks and communicators

  void Create();
  void Step();
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // Makes steps on each rank until a step of the rank fails, and then makes `more` further steps on this rank.
  void StepUntilFailure(int more);
  void Destroy() { ranks_.clear(); }
  // Set the parameters or gradients of each rank to its part of the tensors `whole`.
  void SetParams(const Tensors& whole);
  void SetGradients(const Tensors& whole);
  // Set the parameters or gradients to pseudo-random numbers that depend only on the seed.
  void FillParams(uint64_t seed) { SetParams(Whole(seed)); }
  void FillGradients(uint64_t seed) { SetGradients(Whole(seed)); }

  Rank& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  // Returns whether the last call returned `status` on all ranks.
  bool All(shampoo_status status) const;
  // Returns whether the error messages of all ranks are equal.
  bool SameError() const;
  // Returns whether the parameters of each rank are bit-identical to its part of the whole parameters w.
  bool AllHold(const Tensors& w) const;
  // Returns the statuses and error messages of all ranks, one per line.
  std::string Errors() const;

 private:
  Tensors Whole(uint64_t seed) const;

  int replicas_, shards_;
  std::vector<ParamSpec> whole_;
  std::vector<std::unique_ptr<ThreadComm>> replica_comms_, shard_comms_;
  std::unique_ptr<ThreadComm> all_comm_;
  std::vector<shampoo_comm_ops> ops_;
  std::vector<RankSpec> specs_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

// Creates the ranks. If the creation succeeds on all ranks, fills the parameters and gradients.
void CreateAndFill(Grid* grid, std::chrono::milliseconds patience);

// Return everything that a step may write: the parameters and every entry of the state, of one rank or of all ranks.
std::vector<std::vector<char>> Everything(const Rank& rank);
std::vector<std::vector<std::vector<char>>> Everything(Grid* grid);
// Returns the parameters of all ranks.
std::vector<Tensors> ParamsOf(Grid* grid);
bool SameBits(const std::vector<Tensors>& a, const std::vector<Tensors>& b);
// Write or read the step counter of a group.
void SetSteps(const Rank& rank, int group, int64_t steps);
int64_t StepsOf(const Rank& rank, int group);

// Writes `value` to all elements of those float32 states of this rank whose keys begin with `begin` and end with `end`.
void FillStates(const Rank& rank, const std::string& begin, const std::string& end, float value);

inline bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace shampoo_test
