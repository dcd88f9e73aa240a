// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {

// An entry of a rank's state, and where it lies in its parameter: worked out from what a plan tells of its blocks, and
// from what the rank holds.
struct PlacedEntry {
  int64_t index = 0;  // for shampoo_state_read
  std::string param;
  std::string state;           // "momentum", "factor.0", ...
  std::vector<int64_t> shape;  // of the entry
  std::vector<int64_t> block_shape;
  std::vector<int64_t> block_elements;  // of the flattened parameter, in the order of the block
  int32_t dtype = 0;
  bool symmetric = false;

  bool is_elementwise() const { return state == "filtered_grad" || state == "grafting" || state == "momentum"; }
  // The same for the same block, whoever has it and however it came to be.
  std::string block() const;
  int64_t elements() const;
};

// Those of blocks; params: as the rank was made from.
std::vector<PlacedEntry> EntriesOf(const Rank& rank, const std::vector<ParamSpec>& params);

// The bits that an entry is to have in a job of this salt: of an elementwise state each element's depend on its place
// in the parameter alone, of others on the block. All numbers are finite.
std::vector<char> ExpectedBytes(const PlacedEntry& entry, uint64_t salt);

std::vector<char> ReadBytes(const Rank& rank, const PlacedEntry& entry);
bool WriteBytes(const Rank& rank, const PlacedEntry& entry, const std::vector<char>& bytes);

}  // namespace shampoo_test
