// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {

// An entry of a rank's state, with the position of its block in the whole parameter. The position is computed from the
// plan's description of the block and from the shard of the parameter that the rank holds.
struct PlacedEntry {
  int64_t index = 0;  // for shampoo_state_read
  std::string param;
  std::string state;           // "momentum", "factor.0", ...
  std::vector<int64_t> shape;  // shape of the entry
  std::vector<int64_t> block_shape;
  std::vector<int64_t> block_elements;  // positions in the flattened parameter, in the block's row-major order
  int32_t dtype = 0;
  bool symmetric = false;

  bool is_elementwise() const { return state == "filtered_grad" || state == "grafting" || state == "momentum"; }
  // Returns a string that identifies the block in all jobs: the parameter, and the shape and elements of the block.
  std::string block() const;
  int64_t elements() const;
};

// Returns the entries that belong to blocks: all entries except step counters. params: the parameters from which the
// rank was created.
std::vector<PlacedEntry> EntriesOf(const Rank& rank, const std::vector<ParamSpec>& params);

// Returns the bytes that a test writes to an entry and expects after a load. Different values of salt give different
// bytes. All numbers are finite. A number in an elementwise state depends on the state, the parameter, and the position
// of the element in the parameter. A number in any other state depends on the state, the block, and the position of the
// element in the entry.
std::vector<char> ExpectedBytes(const PlacedEntry& entry, uint64_t salt);

std::vector<char> ReadBytes(const Rank& rank, const PlacedEntry& entry);
bool WriteBytes(const Rank& rank, const PlacedEntry& entry, const std::vector<char>& bytes);

}  // namespace shampoo_test
