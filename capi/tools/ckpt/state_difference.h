// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capi/tools/ckpt/progress_line.h"
#include "core/checkpoint/states_reader.h"

namespace shampoo::ckpt {

// How far the elements of one state are apart in two checkpoints.
struct StateDifference {
  int64_t compared = 0;
  int64_t different = 0;  // of these
  double absolute = 0;    // the largest
  double relative = 0;    // the largest, to the larger of the two

  void Add(std::span<const double> a, std::span<const double> b);
};

// Compares states of two checkpoints, a piece at a time. Failures are those of the readers: a file is damaged.
class StateComparer {
 public:
  // progress: is told the bytes of a.
  StateComparer(StatesReader* a, StatesReader* b, ProgressLine* progress) : a_(a), b_(b), progress_(progress) {}

  // An entry of blocks that are at the same place.
  Status Compare(const StoredBlock& a, const StoredBlock& b, std::string_view state, StateDifference* difference);
  // An elementwise state of a parameter, of which both have all elements, in blocks that were cut in any way, each in
  // one dtype.
  Status CompareWindows(int64_t elements, std::span<const StoredBlock* const> a, std::span<const StoredBlock* const> b,
                        std::string_view state, StateDifference* difference);

 private:
  void AddParts(const char* a, Dtype a_dtype, const char* b, Dtype b_dtype, int64_t count, StateDifference* difference);

  StatesReader* a_;
  StatesReader* b_;
  ProgressLine* progress_;
  std::vector<char> a_bytes_, b_bytes_;
  std::vector<double> a_numbers_, b_numbers_;
};

}  // namespace shampoo::ckpt
