// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/tools/device_ranks.h"

#include <algorithm>

#include "core/base/dtype.h"

namespace shampoo_test {

DeviceRanks::DeviceRanks(const ModelSpec& spec, const RankKind& kind, const shampoo_allocator* allocators)
    : on_device_(spec.device_type == SHAMPOO_CUDA),
      has_all_to_all_(kind.has_all_to_all),
      ranks_(static_cast<size_t>(kind.world())) {
  const int copies = kind.copies;
  const int shards = kind.shards;
  replica_ops_.resize(copies > 1 || shards == 1 ? ranks_.size() : 0);
  shard_ops_.resize(shards > 1 ? ranks_.size() : 0);
  const auto rank_at = [&](int copy, int shard) { return static_cast<size_t>(copy * shards + shard); };
  for (int shard = 0; !replica_ops_.empty() && shard < shards; ++shard) {
    StagedComm* const comm = AddComm(copies);
    for (int copy = 0; copy < copies; ++copy)
      replica_ops_[rank_at(copy, shard)] = OpsOf(comm, copy, kind.on_host.of_replicas);
  }
  for (int copy = 0; !shard_ops_.empty() && copy < copies; ++copy) {
    StagedComm* const comm = AddComm(shards);
    for (int shard = 0; shard < shards; ++shard)
      shard_ops_[rank_at(copy, shard)] = OpsOf(comm, shard, kind.on_host.of_shards);
  }
  for (Rank& rank : ranks_) rank.stream = on_device_ ? std::make_unique<TestStream>() : nullptr;
  if (on_device_) UsePlugin();
  OnEveryRank(world(), [&](int rank) {
    ModelSpec own = spec;
    own.keys = kind.keys() + spec.keys;
    own.replica_ops = replica_ops(rank);
    own.shard_ops = shard_ops(rank);
    if (allocators != nullptr) own.allocator = allocators + rank;
    Rank& made = ranks_[static_cast<size_t>(rank)];
    made.model = std::make_unique<Model>(own, on_device_ ? cudaStream_t{*made.stream} : nullptr);
  });
}

StagedComm* DeviceRanks::AddComm(int world) {
  comms_.push_back(std::make_unique<StagedComm>(world, fake_cuda_check_collective));
  comms_.back()->host().patience = std::chrono::seconds(20);
  return comms_.back().get();
}

shampoo_comm_ops DeviceRanks::OpsOf(StagedComm* comm, int rank, bool on_host) const {
  if (on_device_ && !on_host) return comm->OpsOf(rank, true, has_all_to_all_);
  shampoo_comm_ops ops = comm->host().OpsOf(rank, true);
  if (!has_all_to_all_) ops.all_to_all = nullptr;
  return ops;
}

ThreadComm& DeviceRanks::CommOf(int rank, bool of_shards) {
  // comms_ contains first the communicators of replicas (one per shard), then those of shards (one per copy).
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
  OnEvery([](int, Model* model) { return model->Status(); });
}

void DeviceRanks::FillGradients(uint64_t seed) {
  for (Rank& rank : ranks_) rank.model->FillGradients(seed);
}

void DeviceRanks::CheckStep(shampoo_status status, const std::vector<std::string>& words) {
  Step();
  CHECK(DifferencesFrom(status, words) == "");
}

void DeviceRanks::MustSucceed() {
  Status();
  REQUIRE(DifferencesFrom(SHAMPOO_OK) == "");
}

std::vector<Model*> DeviceRanks::models() const {
  std::vector<Model*> models;
  for (const Rank& rank : ranks_) models.push_back(rank.model.get());
  return models;
}

void DeviceRanks::Step(uint64_t seed) {
  FillGradients(seed);
  Step();
}

void DeviceRanks::Train(uint64_t first, uint64_t last) {
  for (uint64_t t = first; t <= last; ++t) {
    Step(t);
    REQUIRE(DifferencesFrom(SHAMPOO_OK) == "");
  }
}

int64_t DeviceRanks::TryToSaveOrLoad(bool saves, const std::string& directory,
                                     const std::function<void(ThreadComm* comm)>& prepare) {
  StagedComm comm(world(), fake_cuda_check_collective);
  comm.host().patience = std::chrono::seconds(20);
  std::vector<shampoo_comm_ops> ops;
  for (int rank = 0; rank < world(); ++rank) ops.push_back(OpsOf(&comm, rank, false));
  prepare(&comm.host());
  OnEvery([&](int rank, Model* model) {
    shampoo_comm* all = nullptr;
    if (world() > 1) Must(shampoo_comm_from_ops(&all, &ops[static_cast<size_t>(rank)]));
    const auto run = saves ? shampoo_save : shampoo_load;
    const shampoo_status status = run(&model->optimizer, 1, all, directory.c_str(), model->stream);
    shampoo_comm_destroy(all);  // keeps the error message of run()
    return status;
  });
  CHECK(comm.host().timeouts() == 0);
  return comm.host().calls(0);
}

void DeviceRanks::Save(const std::string& directory) {
  TryToSaveOrLoad(true, directory);
  REQUIRE(DifferencesFrom(SHAMPOO_OK) == "");
}

void DeviceRanks::Load(const std::string& directory) {
  TryToSaveOrLoad(false, directory);
  REQUIRE(DifferencesFrom(SHAMPOO_OK) == "");
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

// Returns the part of the parameter `whole` that a rank holds. All shards have the same size, except that the last ones
// may be smaller. If `shards`, the communicator of the shards, is nullptr, the rank holds all elements.
std::vector<double> ShardOf(const std::vector<double>& whole, const shampoo_comm_ops* shards) {
  if (shards == nullptr) return whole;
  const auto shard_size = static_cast<std::ptrdiff_t>((whole.size() + static_cast<size_t>(shards->world) - 1) /
                                                      static_cast<size_t>(shards->world));
  const auto size = static_cast<std::ptrdiff_t>(whole.size());
  const std::ptrdiff_t first = std::min(size, shards->rank * shard_size);
  return {whole.begin() + first, whole.begin() + std::min(size, first + shard_size)};
}

}  // namespace

void DeviceRanks::SetFrom(const Model& whole) {
  for (int rank = 0; rank < world(); ++rank) {
    for (size_t p = 0; p < whole.params(); ++p) {
      (*this)[rank].SetParam(p, ShardOf(whole.ParamValues(p), shard_ops(rank)));
    }
  }
  SetGradientsFrom(whole);
}

void DeviceRanks::SetGradientsFrom(const Model& whole) {
  for (int rank = 0; rank < world(); ++rank) {
    for (size_t p = 0; p < whole.params(); ++p) {
      (*this)[rank].SetGradient(p, ShardOf(whole.GradientValues(p), shard_ops(rank)));
    }
  }
}

void DeviceRanks::CheckShardsOf(const Model& whole, double tolerance) {
  const auto check = [&](size_t p, const std::vector<double>& values, const std::vector<double>& expected) {
    if (fake_cuda_is_fake() != 0) {
      CHECK(values == expected);
      return;
    }
    // In each step, a value near the midpoint between two numbers of its dtype may be rounded to either number.
    const double epsilon = shampoo::MachineEpsilon(static_cast<shampoo::Dtype>(whole.spec(p).param_dtype));
    CHECK(Distance(values, expected) <= std::max(tolerance, 2 * epsilon));
  };
  for (int rank = 0; rank < world(); ++rank) {
    for (size_t p = 0; p < whole.params(); ++p) {
      INFO("rank ", rank, ", parameter ", p);
      const Model& model = (*this)[rank];
      check(p, model.ParamValues(p), ShardOf(whole.ParamValues(p), shard_ops(rank)));
      check(p, model.OutValues(p), ShardOf(whole.OutValues(p), shard_ops(rank)));
    }
  }
}

std::vector<std::vector<char>> DeviceRanks::Bits() const {
  std::vector<std::vector<char>> bits;
  for (const Rank& rank : ranks_) bits.push_back(BitsOf(*rank.model));
  return bits;
}

std::vector<std::vector<double>> DeviceRanks::Params() {
  std::vector<std::vector<double>> values;
  for (Rank& rank : ranks_) {
    for (size_t p = 0; p < rank.model->params(); ++p) values.push_back(rank.model->ParamValues(p));
  }
  return values;
}

}  // namespace shampoo_test
