// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/replay_ranks.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "tests/distributed/thread_comm.h"

namespace shampoo::golden {

ReplayRanks::ReplayRanks(const nlohmann::json& settings, const TensorFile& data, const How& how) : how_(how) {
  const int world = how.ranks * how.shards;
  std::vector<Place> places(static_cast<size_t>(world));
  replica_ops_.resize(places.size());
  shard_ops_.resize(places.size());
  const auto index = [&how](int replica, int shard) { return static_cast<size_t>(replica * how.shards + shard); };
  for (int shard = 0; how.ranks > 1 && shard < how.shards; ++shard) {
    comms_.push_back(MakeRankComms(how.ranks));
    for (int replica = 0; replica < how.ranks; ++replica) {
      replica_ops_[index(replica, shard)] = comms_.back()->OpsOf(replica);
      places[index(replica, shard)].replica_ops = &replica_ops_[index(replica, shard)];
    }
  }
  for (int replica = 0; how.shards > 1 && replica < how.ranks; ++replica) {
    comms_.push_back(MakeRankComms(how.shards));
    for (int shard = 0; shard < how.shards; ++shard) {
      shard_ops_[index(replica, shard)] = comms_.back()->OpsOf(shard);
      places[index(replica, shard)].shard_ops = &shard_ops_[index(replica, shard)];
    }
  }
  if (how.process != nullptr) places[0].replica_ops = how.process;
  for (Place& place : places) place.rectangles = how.rectangles;
  ranks_.resize(places.size());
  OnEvery([&](size_t rank) {
    ranks_[rank] = std::make_unique<ReplayOptimizer>(settings, data, places[rank], how.threads, how.keys);
  });
  const auto shapes = settings.at("shapes").get<std::vector<std::vector<int64_t>>>();
  for (size_t p = 0; p < shapes.size(); ++p) params_.push_back(data.At("init/" + std::to_string(p)));
  Collect();
}

// An exception of any rank is one of the caller's.
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

void ReplayRanks::SetLearningRates(const std::vector<double>& rates) {
  for (const auto& rank : ranks_) rank->SetLearningRates(rates);
}

void ReplayRanks::Step(const std::vector<const void*>& gradients) {
  OnEvery([&](size_t rank) { ranks_[rank]->Step(gradients); });
  Collect();
}

void ReplayRanks::Collect() {
  for (int replica = 0; replica < how_.ranks; ++replica) {
    for (size_t p = 0; p < params_.size(); ++p) {
      std::vector<std::byte> bytes;
      for (int shard = 0; shard < how_.shards; ++shard) {
        const std::vector<std::byte>& piece = At(replica, shard).Params()[p].bytes;
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      }
      if (replica == 0) {
        // In place: a caller may have kept the address.
        std::copy(bytes.begin(), bytes.end(), params_[p].bytes.begin());
      } else if (bytes != params_[p].bytes) {
        throw std::runtime_error("parameter " + std::to_string(p) + " has other bits on rank " +
                                 std::to_string(replica) + " than on rank 0");
      }
    }
  }
}

}  // namespace shampoo::golden
