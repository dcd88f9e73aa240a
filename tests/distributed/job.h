// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/distributed/thread_comm.h"
#include "tests/keys.h"

namespace shampoo_test {

// A parameter and the part of it that a rank holds.
struct ParamSpec {
  std::string name;
  std::vector<int64_t> shape;
  int32_t group = 0;
  int32_t shard_form = 0;
  int64_t flat_offset = 0;
  int64_t flat_count = 0;
  std::vector<int64_t> local_offset = {};
  std::vector<int64_t> local_shape = {};
  int32_t stack_dims = 0;
  int32_t fan = SHAMPOO_OUT_IN;
  std::vector<int64_t> row_splits = {};
  int32_t dtype = SHAMPOO_F32;  // a Rank makes steps in float32 only

  int64_t Elements() const;  // number of elements in this rank's buffers
  // Turn a whole parameter into a flat shard, or into a rectangle that is a slice along one dim. A rectangle can be
  // sliced along further dims.
  void CutFlat(int64_t first, int64_t count);
  void CutAlong(size_t dim, int64_t first, int64_t count);
};

// The specification of one rank.
struct RankSpec {
  Keys keys = {};
  std::vector<Keys> groups = {};  // groups 1 and up
  std::vector<ParamSpec> params = {};
  int32_t threads = 1;
  int32_t device_id = 0;
  int replica_rank = 0, replica_world = 1;
  int shard_rank = 0, shard_world = 1;
  std::vector<std::vector<ParamSpec>> all_shards = {};  // for shampoo_plan_add_shard, by shard rank; empty: not called
  const shampoo_comm_ops* replica_ops = nullptr;
  const shampoo_comm_ops* shard_ops = nullptr;
  const shampoo_comm_ops* world_ops = nullptr;  // all ranks of the job, for checkpoints
  shampoo_comm* replica_comm = nullptr;         // used instead of replica_ops if several optimizers share it
  shampoo_comm* shard_comm = nullptr;           // used instead of shard_ops if several optimizers share it
  const shampoo_allocator* allocator = nullptr;
};

// A rank with its optimizer, parameters and gradients. Its functions make no assertions, because ranks run on threads
// of their own. They store the status and error message of each call, and the test checks these.
class Rank {
 public:
  explicit Rank(const RankSpec& spec);  // collective if there is a communicator; the result is in status and error
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void Step();
  // Exports averages of the parameters, which must be bound.
  void Export(double blend, std::vector<std::vector<float>>* weights);
  void Save(const std::string& directory);  // collective over all ranks of the job
  void Load(const std::string& directory);  // collective over all ranks of the job
  int64_t PlanBytes(const char* what, int rank) const;
  double Stat(const char* key) const;

  shampoo_status status = SHAMPOO_OK;  // of the last call
  std::string error;
  std::vector<std::vector<float>> w;
  std::vector<std::vector<float>> g;
  std::vector<bool> has_grad;
  void* stream = nullptr;  // passed to the steps
  shampoo_plan* plan = nullptr;
  shampoo_optimizer* optimizer = nullptr;
  shampoo_comm* world = nullptr;  // nullptr if there is one rank

 private:
  bool Try(shampoo_status result);
  void Build(const RankSpec& spec);

  std::vector<shampoo_buffers> buffers_;
};

// An entry of a rank's state.
struct StateEntry : shampoo_state_entry {
  int64_t index;
  int64_t elements;
};
std::vector<StateEntry> EntriesOf(const Rank& rank);
// Returns the elements of an entry with room for float64, or nothing if they cannot be read.
std::vector<char> ReadBytes(const Rank& rank, const StateEntry& entry);
// Returns the blocks of a rank's plan, or nothing if they cannot be read.
std::vector<shampoo_block_info> BlocksOf(const Rank& rank);

void Fill(uint64_t seed, std::vector<std::vector<float>>* tensors);
bool SameBits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b);

}  // namespace shampoo_test
