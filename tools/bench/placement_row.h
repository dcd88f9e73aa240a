// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tools/bench/placement_load.h"
#include "tools/bench/placement_options.h"

namespace bench {

// A model on a number of ranks: sizes from a plan, and times by the formulas of docs/scaling.md. If parameters are
// divided into shards, the row describes the ranks that hold the first shard of each parameter, which is never smaller
// than the other shards.
struct PlacementRow {
  int world = 0;
  std::string balance;
  int replicas = 0;  // ranks among which the blocks are divided

  int64_t elements = 0;  // elements of the first shards of all parameters
  int64_t blocks = 0;
  int64_t blocks_state = 0;  // bytes of state, summed over blocks
  int64_t ranks_state = 0;   // bytes of state, summed over ranks, including step counters and padding
  int64_t idle = 0;          // ranks without a block
  int64_t sent = 0;          // bytes that each rank sends in a step, including padding to equal sizes
  Load updates;              // elements of the blocks that a rank owns
  Load state;                // bytes of state of a rank
  Load compute;              // seconds that a rank needs to compute its blocks in a step, averaged over steps

  double gather_seconds = 0;
  double train_seconds = 0;  // seconds of a training step without Shampoo

  // Returns the bytes that each rank receives in an all-gather, including the bytes of the rank itself.
  int64_t Gathered() const { return sent * replicas; }
  double Overhead() const { return (compute.largest + gather_seconds) / train_seconds; }
};

double TrainSeconds(const Model& model, const Rates& rates);

PlacementRow PlaceModel(const Model& model, int world, const std::string& balance, const PlacementOptions& options);

}  // namespace bench
