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

// How a state differs between two checkpoints. `a` and `b` are an element of the state in the first and in the second
// checkpoint. NaN equals NaN. If a and b differ and one of them is NaN or infinite, `absolute` and `relative` are
// infinite.
struct StateDifference {
  int64_t compared = 0;   // the number of elements that were compared
  int64_t different = 0;  // the number of those elements that differ
  double absolute = 0;    // the largest |a - b|
  double relative = 0;    // the largest |a - b| / max(|a|, |b|)

  // Compares a[i] with b[i] for each i.
  void Add(std::span<const double> a, std::span<const double> b);
};

// Compares states of the checkpoints A and B piece by piece. Fails if a reader finds that a file is damaged.
class StateComparer {
 public:
  // a, b: the readers of A and B. progress: StateComparer reports each read from A with progress->Add().
  StateComparer(StatesReader* a, StatesReader* b, ProgressLine* progress) : a_(a), b_(b), progress_(progress) {}

  // Compares a state of block `a` of A with the same state of block `b` of B, and adds the result to *difference. Both
  // blocks are at the same place in their parameter.
  Status Compare(const StoredBlock& a, const StoredBlock& b, std::string_view state, StateDifference* difference);
  // Compares a state that has one element for each element of a parameter, and adds the result to *difference. A and B
  // may divide the parameter into different blocks. Each checkpoint must have all elements of the state, in one dtype.
  // elements: the number of elements of the parameter. a, b: all blocks of the parameter in A and in B.
  Status CompareWindows(int64_t elements, std::span<const StoredBlock* const> a, std::span<const StoredBlock* const> b,
                        std::string_view state, StateDifference* difference);

 private:
  void AddChunks(const char* a, Dtype a_dtype, const char* b, Dtype b_dtype, int64_t count,
                 StateDifference* difference);

  StatesReader* a_;
  StatesReader* b_;
  ProgressLine* progress_;
  std::vector<char> a_bytes_, b_bytes_;
  std::vector<double> a_numbers_, b_numbers_;
};

}  // namespace shampoo::ckpt
