// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/replay_ranks.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "tests/distributed/thread_comm.h"

namespace shampoo::golden {

ReplayRanks::ReplayRanks(const nlohmann::json& settings, const TensorFile& data, const ReplayOptions& options)
    : options_(options) {
  // If ranks are processes, this process has one rank.
  process_is_shard_ = options.process != nullptr && options.shards > 1;
  if (options.process != nullptr) options_.shards = 1;
  const int world = options.ranks * options_.shards;
  std::vector<RankPlacement> placements(static_cast<size_t>(world));
  replica_ops_.resize(placements.size());
  shard_ops_.resize(placements.size());
  const int shards = options_.shards;
  const auto index = [shards](int replica, int shard) { return static_cast<size_t>(replica * shards + shard); };
  for (int shard = 0; options.ranks > 1 && shard < shards; ++shard) {
    comms_.push_back(MakeRankComms(options.ranks));
    for (int replica = 0; replica < options.ranks; ++replica) {
      replica_ops_[index(replica, shard)] = comms_.back()->OpsOf(replica);
      placements[index(replica, shard)].replica_ops = &replica_ops_[index(replica, shard)];
    }
  }
  for (int replica = 0; shards > 1 && replica < options.ranks; ++replica) {
    comms_.push_back(MakeRankComms(shards));
    for (int shard = 0; shard < shards; ++shard) {
      shard_ops_[index(replica, shard)] = comms_.back()->OpsOf(shard);
      if (!options.has_all_to_all) shard_ops_[index(replica, shard)].all_to_all = nullptr;
      placements[index(replica, shard)].shard_ops = &shard_ops_[index(replica, shard)];
    }
  }
  if (world > 1) comms_.push_back(MakeRankComms(world));
  for (int rank = 0; world > 1 && rank < world; ++rank) world_ops_.push_back(comms_.back()->OpsOf(rank));
  for (size_t rank = 0; rank < world_ops_.size(); ++rank) placements[rank].world_ops = &world_ops_[rank];
  if (options.process != nullptr) {
    (process_is_shard_ ? placements[0].shard_ops : placements[0].replica_ops) = options.process;
    placements[0].world_ops = options.process;
  }
  for (RankPlacement& placement : placements) {
    placement.rectangles = options.rectangles;
    placement.device = options.device;
  }
  ranks_.resize(placements.size());
  OnEvery([&](size_t rank) {
    ranks_[rank] = std::make_unique<ReplayOptimizer>(settings, data, placements[rank], options.threads, options.keys);
  });
  const auto shapes = settings.at("shapes").get<std::vector<std::vector<int64_t>>>();
  for (size_t p = 0; p < shapes.size(); ++p) params_.push_back(data.At("init/" + std::to_string(p)));
  Collect();
}

// Calls `work` for every rank. If `work` throws on some ranks, rethrows the exception of the lowest of these ranks.
template <typename Work>
void ReplayRanks::OnEvery(Work&& work) {
  std::vector<std::exception_ptr> failures(ranks_.size());
  const auto guarded = [&](int rank) {
    try {
      work(static_cast<size_t>(rank));
    } catch (...) {
      failures[static_cast<size_t>(rank)] = std::current_exception();
    }
  };
  if (ranks_.size() == 1) {
    guarded(0);
  } else {
    shampoo_test::OnEveryRank(static_cast<int>(ranks_.size()), guarded);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

void ReplayRanks::SetInGroups(const char* key, const std::vector<double>& values) {
  for (const auto& rank : ranks_) rank->SetInGroups(key, values);
}

void ReplayRanks::Step(const std::vector<const void*>& gradients) {
  OnEvery([&](size_t rank) { ranks_[rank]->Step(gradients); });
  Collect();
}

void ReplayRanks::PerturbFactors(std::mt19937_64* random) {
  for (const auto& rank : ranks_) rank->PerturbFactors(random);
}

void ReplayRanks::Save(const std::string& directory) {
  OnEvery([&](size_t rank) { ranks_[rank]->Save(directory); });
}

void ReplayRanks::Load(const std::string& directory) {
  OnEvery([&](size_t rank) { ranks_[rank]->Load(directory); });
}

std::vector<Tensor> ReplayRanks::Export(double blend) {
  OnEvery([&](size_t rank) { ranks_[rank]->Export(blend); });
  std::vector<Tensor> exported = params_;
  CollectTo([](const ReplayOptimizer& rank) -> const std::vector<Tensor>& { return rank.Exported(); }, &exported);
  return exported;
}

// Gathers the shards of a tensor from all processes, and returns the elements of the whole tensor. Each process sends
// the size of its shard, then the shard. The shard is padded to the size of the whole tensor (`all` bytes).
std::vector<std::byte> ReplayRanks::GatherShards(const Tensor& own, size_t all) {
  const shampoo_comm_ops& ops = *options_.process;
  const auto world = static_cast<size_t>(ops.world);
  std::vector<std::byte> segments(world * (sizeof(size_t) + all));
  const auto segment_of = [&](size_t rank) { return segments.data() + rank * (sizeof(size_t) + all); };
  std::byte* const mine = segment_of(static_cast<size_t>(ops.rank));
  const size_t count = own.bytes.size();
  std::memcpy(mine, &count, sizeof count);
  std::copy(own.bytes.begin(), own.bytes.end(), mine + sizeof count);
  if (ops.all_gather(ops.user, mine, segments.data(), sizeof count + all, nullptr) != 0) {
    throw std::runtime_error("the shards of a parameter cannot be gathered");
  }
  std::vector<std::byte> whole;
  for (size_t rank = 0; rank < world; ++rank) {
    size_t bytes = 0;
    std::memcpy(&bytes, segment_of(rank), sizeof bytes);
    whole.insert(whole.end(), segment_of(rank) + sizeof bytes, segment_of(rank) + sizeof bytes + bytes);
  }
  return whole;
}

void ReplayRanks::Collect() {
  CollectTo([](const ReplayOptimizer& rank) -> const std::vector<Tensor>& { return rank.Params(); }, &params_);
}

// Assembles whole tensors from the shards of all ranks. Throws if replicas differ.
template <typename TensorsOf>
void ReplayRanks::CollectTo(TensorsOf&& tensors_of, std::vector<Tensor>* whole) {
  for (int replica = 0; replica < options_.ranks; ++replica) {
    for (size_t p = 0; p < whole->size(); ++p) {
      std::vector<std::byte>& to = (*whole)[p].bytes;
      std::vector<std::byte> bytes;
      if (process_is_shard_) bytes = GatherShards(tensors_of(At(0, 0))[p], to.size());
      for (int shard = 0; shard < options_.shards && !process_is_shard_; ++shard) {
        const std::vector<std::byte>& piece = tensors_of(At(replica, shard))[p].bytes;
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      }
      if (replica == 0) {
        // Overwrites the bytes in place, because a caller may have kept their address.
        std::copy(bytes.begin(), bytes.end(), to.begin());
      } else if (bytes != to) {
        throw std::runtime_error("parameter " + std::to_string(p) + " of replica " + std::to_string(replica) +
                                 " is not bit-identical to that of replica 0");
      }
    }
  }
}

}  // namespace shampoo::golden
