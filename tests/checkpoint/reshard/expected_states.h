// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {

// An entry of a rank's state and its position in the parameter, computed from the plan's description of blocks and from
// the rank's share of the parameter.
struct PlacedEntry {
  int64_t index = 0;  // for shampoo_state_read
  std::string param;
  std::string state;           // "momentum", "factor.0", ...
  std::vector<int64_t> shape;  // shape of the entry
  std::vector<int64_t> block_shape;
  std::vector<int64_t> block_elements;  // positions in the flattened parameter, in the order of the block
  int32_t dtype = 0;
  bool symmetric = false;

  bool is_elementwise() const { return state == "filtered_grad" || state == "grafting" || state == "momentum"; }
  // Identifies the block, independent of its owner and of the plan.
  std::string block() const;
  int64_t elements() const;
};

// Returns the entries of blocks. `params` are the parameters that the rank was created from.
std::vector<PlacedEntry> EntriesOf(const Rank& rank, const std::vector<ParamSpec>& params);

// Returns the bytes that an entry must have in a job with this salt. In an elementwise state, each element depends
// only on its position in the parameter. Other states depend on the block. All numbers are finite.
std::vector<char> ExpectedBytes(const PlacedEntry& entry, uint64_t salt);

std::vector<char> ReadBytes(const Rank& rank, const PlacedEntry& entry);
bool WriteBytes(const Rank& rank, const PlacedEntry& entry, const std::vector<char>& bytes);

}  // namespace shampoo_test
