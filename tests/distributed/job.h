// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A rank of a test job, and the specification from which it is created. See grid.h for a whole job.
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
  int32_t dtype = SHAMPOO_F32;  // class Rank can make steps only with SHAMPOO_F32

  int64_t Elements() const;  // number of elements that the rank holds
  // Restricts the rank to `count` elements of the flattened parameter, from element `first` on.
  void CutFlat(int64_t first, int64_t count);
  // Restricts the rank to `count` indices of a dim, from index `first` on. May be called for several dims.
  void CutAlong(size_t dim, int64_t first, int64_t count);
};

// The specification of one rank.
struct RankSpec {
  Keys keys = {};
  std::vector<Keys> groups = {};  // the keys of groups 1 and up; group 0 has `keys`
  std::vector<ParamSpec> params = {};
  int32_t threads = 1;
  int32_t device_id = 0;
  int replica_rank = 0, replica_world = 1;
  int shard_rank = 0, shard_world = 1;
  // The parameters of each shard rank, for shampoo_plan_add_shard. If empty, this function is not called.
  std::vector<std::vector<ParamSpec>> all_shards = {};
  const shampoo_comm_ops* replica_ops = nullptr;
  const shampoo_comm_ops* shard_ops = nullptr;
  const shampoo_comm_ops* world_ops = nullptr;  // connects all ranks of the job, for checkpoints
  shampoo_comm* replica_comm = nullptr;         // if set, used instead of replica_ops; several optimizers may share it
  shampoo_comm* shard_comm = nullptr;           // if set, used instead of shard_ops; several optimizers may share it
  const shampoo_allocator* allocator = nullptr;
};

// A rank with its optimizer, parameters and gradients. The member functions make no assertions, because each rank runs
// on its own thread. Functions without a return value store the status and the error message of the call, for the
// test to check afterwards.
class Rank {
 public:
  explicit Rank(const RankSpec& spec);  // collective if there is a communicator; sets status and error
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void Step();
  // Writes averages of the parameters to `weights`. blend: as in shampoo_optimizer_export(). Call Step() first, because
  // an export needs bound parameters and only Step() binds them.
  void Export(double blend, std::vector<std::vector<float>>* weights);
  void Save(const std::string& directory);  // collective over all ranks of the job
  void Load(const std::string& directory);  // collective over all ranks of the job
  // These two functions return -1 after an error. They do not set `status` and `error`.
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
  shampoo_comm* world = nullptr;  // nullptr if the job has one rank

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
// Returns a vector with 8 bytes for each element of an entry, whatever the dtype. The vector contains the elements,
// without gaps between them, followed by zeros. After an error, the vector is empty.
std::vector<char> ReadBytes(const Rank& rank, const StateEntry& entry);
// Returns the blocks of a rank's plan, or an empty vector after an error.
std::vector<shampoo_block_info> BlocksOf(const Rank& rank);

void Fill(uint64_t seed, std::vector<std::vector<float>>* tensors);
bool SameBits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b);

}  // namespace shampoo_test
