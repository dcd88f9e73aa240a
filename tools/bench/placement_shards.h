// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tools/bench/placement_load.h"
#include "tools/bench/placement_options.h"

namespace bench {

// Numbers of bytes on each rank, for a communicator that has all_to_all, or for one that has only all_gather.
struct ShardsLoad {
  Load sent;       // bytes sent in a step, including headers and padding
  Load workspace;  // all memory except the state; mostly the buffers of the exchanges
  Load total;
};

// A model with shard_mode=gather. Each of `world` ranks holds an equal chunk of every flattened parameter.
struct ShardsRow {
  int world = 0;
  std::string balance;

  int64_t elements = 0;
  int64_t blocks = 0;
  int64_t idle = 0;  // ranks without a block
  Load state;
  ShardsLoad all_to_all;
  ShardsLoad all_gather;  // for a communicator that has only all_gather
  // Bytes on a single rank that holds the whole model.
  double alone_state = 0;
  double alone_workspace = 0;

  // Returns how many bytes a rank would send if the load were distributed evenly and without overhead. Gradients,
  // parameters and updates are sent once each, in float32.
  double EvenSent() const { return 12 * static_cast<double>(elements) / world; }
  // Returns how many bytes a rank would allocate if the load were distributed evenly and without overhead.
  double EvenTotal() const { return (alone_state + alone_workspace) / world; }
  // Returns how many bytes a rank receives with all_gather: the data of all ranks, including its own.
  double Gathered() const { return all_gather.sent.largest * world; }
};

ShardsRow PlaceShards(const Model& model, int world, const std::string& balance, const PlacementOptions& options);

}  // namespace bench
