// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/distributed/job.h"

namespace shampoo_test {

using Tensors = std::vector<std::vector<float>>;
// What each rank of a copy holds of each parameter.
using Shards = std::vector<std::vector<ParamSpec>>;

enum class Division { kFlat, kRows };

// Parameters in equal shares, as far as they go: the last ranks may hold less, or nothing.
Shards Divide(const std::vector<ParamSpec>& whole, Division division, int ranks);
// A rank's part of whole tensors.
Tensors PartOf(const std::vector<ParamSpec>& shard, const Tensors& whole);

// Ranks that hold copies of the parameters, each copy divided over shard ranks: threads over one ThreadComm for each
// shard (the ranks that hold it) and one for each copy. Where there is one copy, or one shard, there is no
// communicator. For checkpoints there is one more, of all ranks.
class Grid {
 public:
  // whole: as one rank would hold it. Its place and communicators are set here.
  Grid(const RankSpec& whole, int copies, const Shards& shards, bool with_abort = false);
  Grid(const RankSpec& whole, int copies, int shards, bool with_abort = false);

  int world() const { return copies_ * shards_; }
  int copies() const { return copies_; }
  int shards() const { return shards_; }
  RankSpec& spec(int rank) { return specs_[static_cast<size_t>(rank)]; }  // to be changed before Create
  // As rank `shard` of the first copy has it, without communicators.
  RankSpec Alone(int shard) const;
  ThreadComm& replicas(int shard) { return *replica_comms_[static_cast<size_t>(shard)]; }
  ThreadComm& copy(int copy) { return *shard_comms_[static_cast<size_t>(copy)]; }
  // Of a grid of one copy, or of one shard: the one that there is.
  ThreadComm& comm() { return copies_ > 1 ? replicas(0) : copy(0); }
  ThreadComm& all() { return *all_comm_; }
  std::vector<ThreadComm*> comms();  // those of steps
  void SetPatience(std::chrono::milliseconds patience);
  void SetAllToAll(bool with);  // whether communicators of shards have that; before Create
  int timeouts() const;         // ranks that have waited in vain, in any of the communicators

  void Create();
  void Step();
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // Every rank makes steps until one fails, and so many after it.
  void StepUntilFailure(int more);
  void Destroy() { ranks_.clear(); }
  // From the seed, the same whole tensors on every copy.
  void FillParams(uint64_t seed);
  void FillGradients(uint64_t seed);

  Rank& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  // Whether the last call had this status on all ranks, and the same text.
  bool All(shampoo_status status) const;
  bool SameError() const;
  // What is different: "" for nothing, else all statuses and texts.
  std::string Errors() const;

 private:
  Tensors Whole(uint64_t seed) const;

  int copies_, shards_;
  std::vector<ParamSpec> whole_;
  std::vector<std::unique_ptr<ThreadComm>> replica_comms_, shard_comms_;
  std::unique_ptr<ThreadComm> all_comm_;
  std::vector<shampoo_comm_ops> ops_;
  std::vector<RankSpec> specs_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

// All that a step may write: parameters, and every entry of the state.
std::vector<std::vector<char>> Everything(const Rank& rank);
std::vector<std::vector<std::vector<char>>> Everything(Grid* grid);
// Writes or reads the step counter of a group.
void SetSteps(const Rank& rank, int group, int64_t steps);
int64_t StepsOf(const Rank& rank, int group);

// Writes one value to all elements of the float32 entries whose keys begin and end so, where they are on this rank.
void FillStates(const Rank& rank, const std::string& begin, const std::string& end, float value);

inline Keys operator+(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}
inline bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace shampoo_test
