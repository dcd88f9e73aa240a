// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/tools/device_ranks.h"

#include <algorithm>

#include "core/base/dtype.h"

namespace shampoo_test {

DeviceRanks::DeviceRanks(const ModelSpec& spec, int copies, int shards, const shampoo_allocator* allocators,
                         bool has_all_to_all, HostComms on_host)
    : has_all_to_all_(has_all_to_all), ranks_(static_cast<size_t>(copies) * static_cast<size_t>(shards)) {
  replica_ops_.resize(copies > 1 || shards == 1 ? ranks_.size() : 0);
  shard_ops_.resize(shards > 1 ? ranks_.size() : 0);
  const auto rank_at = [&](int copy, int shard) { return static_cast<size_t>(copy * shards + shard); };
  for (int shard = 0; !replica_ops_.empty() && shard < shards; ++shard) {
    StagedComm* const comm = AddComm(copies);
    for (int copy = 0; copy < copies; ++copy)
      replica_ops_[rank_at(copy, shard)] = OpsOf(comm, copy, on_host.of_replicas);
  }
  for (int copy = 0; !shard_ops_.empty() && copy < copies; ++copy) {
    StagedComm* const comm = AddComm(shards);
    for (int shard = 0; shard < shards; ++shard)
      shard_ops_[rank_at(copy, shard)] = OpsOf(comm, shard, on_host.of_shards);
  }
  for (Rank& rank : ranks_) rank.stream = std::make_unique<TestStream>();
  UsePlugin();
  OnEveryRank(world(), [&](int rank) {
    ModelSpec own = spec;
    own.replica_ops = replica_ops(rank);
    own.shard_ops = shard_ops(rank);
    if (allocators != nullptr) own.allocator = allocators + rank;
    Rank& made = ranks_[static_cast<size_t>(rank)];
    made.model = std::make_unique<Model>(own, *made.stream);
  });
}

StagedComm* DeviceRanks::AddComm(int world) {
  comms_.push_back(std::make_unique<StagedComm>(world, fake_cuda_check_collective));
  comms_.back()->host().patience = std::chrono::seconds(20);
  return comms_.back().get();
}

shampoo_comm_ops DeviceRanks::OpsOf(StagedComm* comm, int rank, bool on_host) const {
  if (!on_host) return comm->OpsOf(rank, true, has_all_to_all_);
  shampoo_comm_ops ops = comm->host().OpsOf(rank, true);
  if (!has_all_to_all_) ops.all_to_all = nullptr;
  return ops;
}

ThreadComm& DeviceRanks::CommOf(int rank, bool of_shards) {
  // The communicators of replicas, one for each shard, come before those of shards, one for each replica.
  const int shards = shard_ops_.empty() ? 1 : shard_ops(rank)->world;
  const int first = of_shards && !replica_ops_.empty() ? shards : 0;
  return comms_[static_cast<size_t>(first + (of_shards ? rank / shards : rank % shards))]->host();
}

int DeviceRanks::timeouts() {
  int timeouts = 0;
  for (const auto& comm : comms_) timeouts += comm->host().timeouts();
  return timeouts;
}

DeviceRanks::~DeviceRanks() { CHECK(timeouts() == 0); }

void DeviceRanks::OnEvery(const Work& work) {
  OnEveryRank(world(), [&](int rank) {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    own.status = work(rank, own.model.get());
    own.text = own.status == SHAMPOO_OK ? "" : shampoo_last_error();
  });
}

shampoo_status DeviceRanks::CreateAgain(int rank, const shampoo_plan* plan) {
  Model& model = (*this)[rank];
  shampoo_optimizer_desc desc = DeviceDesc();
  desc.stream = model.stream;
  if (replica_ops(rank) != nullptr) Must(shampoo_comm_from_ops(&desc.replica_comm, replica_ops(rank)));
  if (shard_ops(rank) != nullptr) Must(shampoo_comm_from_ops(&desc.shard_comm, shard_ops(rank)));
  const shampoo_status status = shampoo_optimizer_create(&model.optimizer, plan, &desc);
  shampoo_comm_destroy(desc.replica_comm);
  shampoo_comm_destroy(desc.shard_comm);
  return status;
}

void DeviceRanks::Step() {
  OnEvery([](int, Model* model) { return model->TryStep(); });
}

void DeviceRanks::Status() {
  OnEvery([](int, Model* model) { return shampoo_optimizer_status(model->optimizer, 1, nullptr); });
}

void DeviceRanks::FillParams(uint64_t seed) {
  for (Rank& rank : ranks_) rank.model->FillParams(seed);
}

void DeviceRanks::FillGradients(uint64_t seed) {
  for (Rank& rank : ranks_) rank.model->FillGradients(seed);
}

void DeviceRanks::Step(uint64_t seed) {
  FillGradients(seed);
  Step();
}

void DeviceRanks::Train(uint64_t first, uint64_t last) {
  for (uint64_t t = first; t <= last; ++t) Step(t);
}

void DeviceRanks::Abort() {
  for (const auto& all : {replica_ops_, shard_ops_}) {
    for (const shampoo_comm_ops& ops : all) ops.abort(ops.user);
  }
}

std::string DeviceRanks::DifferencesFrom(shampoo_status status, const std::vector<std::string>& words) const {
  bool as_expected = true;
  std::string results;
  for (const Rank& rank : ranks_) {
    as_expected = as_expected && rank.status == status && rank.text == ranks_[0].text;
    results += std::to_string(rank.status) + ": " + rank.text + "\n";
  }
  for (const std::string& word : words) {
    as_expected = as_expected && ranks_[0].text.find(word) != std::string::npos;
  }
  return as_expected ? "" : results;
}

bool DeviceRanks::SameParams() {
  const std::vector<std::vector<double>> params = Params();
  const size_t per_rank = (*this)[0].params();
  for (size_t i = per_rank; i < params.size(); ++i) {
    if (params[i] != params[i % per_rank]) return false;
  }
  return true;
}

void DeviceRanks::CheckParams(const Model& alone) {
  const std::vector<std::vector<double>> params = Params();
  for (size_t i = 0; i < params.size(); ++i) {
    CAPTURE(i);
    CHECK(Distance(params[i], alone.ParamValues(i % alone.params())) < 1e-6);
  }
}

namespace {

// Returns the elements of a whole parameter that a shard holds. All shards have the same size, except that the last
// ones may be smaller.
std::vector<double> ShardOf(const std::vector<double>& whole, int shard, int shards) {
  const size_t shard_size = (whole.size() + static_cast<size_t>(shards) - 1) / static_cast<size_t>(shards);
  const size_t first = std::min(whole.size(), static_cast<size_t>(shard) * shard_size);
  const size_t end = std::min(whole.size(), first + shard_size);
  return {whole.begin() + static_cast<std::ptrdiff_t>(first), whole.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

void DeviceRanks::SetFrom(const Model& whole) {
  for (int rank = 0; rank < world(); ++rank) {
    const shampoo_comm_ops* const shards = shard_ops(rank);
    for (size_t p = 0; p < whole.params(); ++p) {
      (*this)[rank].SetParam(p, ShardOf(whole.ParamValues(p), shards->rank, shards->world));
      SetGradientFrom(whole, rank, p);
    }
  }
}

void DeviceRanks::SetGradientFrom(const Model& whole, int rank, size_t p) {
  const shampoo_comm_ops* const shards = shard_ops(rank);
  (*this)[rank].SetGradient(p, ShardOf(whole.GradientValues(p), shards->rank, shards->world));
}

void DeviceRanks::CheckShardsOf(const Model& whole, double tolerance) {
  const auto check = [&](size_t p, const std::vector<double>& values, const std::vector<double>& expected) {
    if (fake_cuda_is_fake() != 0) {
      CHECK(values == expected);
      return;
    }
    // A value close to the midpoint of two neighbors in its dtype may be rounded to either of them in each step.
    const double epsilon = shampoo::MachineEpsilon(static_cast<shampoo::Dtype>(whole.spec(p).param_dtype));
    CHECK(Distance(values, expected) <= std::max(tolerance, 2 * epsilon));
  };
  for (int rank = 0; rank < world(); ++rank) {
    const shampoo_comm_ops* const shards = shard_ops(rank);
    for (size_t p = 0; p < whole.params(); ++p) {
      CAPTURE(rank);
      CAPTURE(p);
      const Model& model = (*this)[rank];
      check(p, model.ParamValues(p), ShardOf(whole.ParamValues(p), shards->rank, shards->world));
      check(p, model.OutValues(p), ShardOf(whole.OutValues(p), shards->rank, shards->world));
    }
  }
}

std::vector<std::vector<double>> DeviceRanks::Params() {
  std::vector<std::vector<double>> values;
  for (Rank& rank : ranks_) {
    for (size_t p = 0; p < rank.model->params(); ++p) values.push_back(rank.model->ParamValues(p));
  }
  return values;
}

}  // namespace shampoo_test
