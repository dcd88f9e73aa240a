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
// For each shard rank, its parts of all parameters.
using Shards = std::vector<std::vector<ParamSpec>>;

enum class Division { kFlat, kRows };

// The number of ranks of a job and how they communicate.
struct Kind {
  int replicas, shards;
  const char* shard_mode = "local";
  bool all_to_all = true;  // whether communicators of shards have all_to_all

  int world() const { return replicas * shards; }
  bool gathers() const { return shard_mode == std::string("gather"); }
};
std::ostream& operator<<(std::ostream& out, const Kind& kind);

// 2 or 4 ranks that are all replicas or all shards.
inline constexpr Kind kReplicasOrShards[] = {{2, 1}, {4, 1}, {1, 2}, {1, 4}};

// How often Grid::Create calls each communicator of the steps.
inline constexpr int64_t kCallsOfCreate = 2;

// Divides parameters into equal shards. The last shards may be smaller or empty.
Shards Divide(const std::vector<ParamSpec>& whole, Division division, int ranks);
// Returns a rank's part of whole tensors.
Tensors PartOf(const std::vector<ParamSpec>& shard, const Tensors& whole);

// The ranks of a job: replicas of the parameters, each divided into shards. The ranks are threads. The shards of a
// replica have consecutive ranks. Steps communicate over one ThreadComm for the replicas of each shard and one for the
// shards of each replica. If such a ThreadComm would have a single rank, it is not used. Checkpoints use another
// ThreadComm, which connects all ranks.
class Grid {
 public:
  // whole: the specification of a single rank with the whole parameters. The grid derives the specifications of its
  // ranks from it.
  Grid(const RankSpec& whole, int replicas, const Shards& shards, bool with_abort = false);
  Grid(const RankSpec& whole, int replicas, int shards, bool with_abort = false);
  // The same with flat shards.
  Grid(const RankSpec& whole, const Kind& kind, bool with_abort = false);

  int world() const { return replicas_ * shards_; }
  int replicas() const { return replicas_; }
  int shards() const { return shards_; }
  RankSpec& spec(int rank) { return specs_[static_cast<size_t>(rank)]; }  // may be changed before Create
  // Returns the specification of rank `shard` of the first replica, without communicators.
  RankSpec Alone(int shard) const;
  ThreadComm& replicas_of(int shard) { return *replica_comms_[static_cast<size_t>(shard)]; }
  ThreadComm& shards_of(int replica) { return *shard_comms_[static_cast<size_t>(replica)]; }
  // Returns the communicator that connects all ranks in steps. Only for a grid with one replica or one shard.
  ThreadComm& comm() { return replicas_ > 1 ? replicas_of(0) : shards_of(0); }
  ThreadComm& all() { return *all_comm_; }  // the communicator of checkpoints
  std::vector<ThreadComm*> comms();         // the communicators of steps
  void SetPatience(std::chrono::milliseconds patience);
  void SetAllToAll(bool with);  // whether communicators of shards have all_to_all; call before Create
  int timeouts() const;         // number of timeouts of ranks in all communicators

  void Create();
  void Step();
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // Makes steps on each rank until a step of the rank fails, and then `more` steps.
  void StepUntilFailure(int more);
  void Destroy() { ranks_.clear(); }
  // Copy each rank's part of whole tensors to the rank.
  void SetParams(const Tensors& whole);
  void SetGradients(const Tensors& whole);
  // Draw random numbers for the whole tensors and set them.
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

// Creates the ranks. If this succeeds on all of them, draws parameters and gradients.
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

// Writes a value to all elements of this rank's float32 entries whose keys begin with `begin` and end with `end`.
void FillStates(const Rank& rank, const std::string& begin, const std::string& end, float value);

inline bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace shampoo_test
