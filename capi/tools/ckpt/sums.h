// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "capi/tools/ckpt/scan.h"
#include "core/checkpoint/index.h"

namespace shampoo::ckpt {

// Returns the name of a state without its dim: "factor" for "factor.1".
std::string_view KindOfState(std::string_view state);
// Returns whether the state is a symmetric matrix (kSymmetricStates), of which files store only the lower triangle.
bool IsTriangle(std::string_view state);
// Reads `count` elements in the format of a file, and converts them to doubles. dtype: the dtype of the elements at
// `from`.
void WidenElements(const void* from, Dtype dtype, int64_t count, std::vector<double>* to);

// Sums over all states of one kind, such as "factor", in all blocks of a parameter.
struct StateSum {
  Dtype dtype = Dtype::kF32;
  int64_t entries = 0;   // the number of states
  double squares = 0;    // the sum of squares of all elements; for symmetric matrices, of both triangles
  double trace = 0;      // the sum of the traces; 0 if the states are not symmetric matrices
  bool damaged = false;  // a state is damaged, so `squares` and `trace` may be wrong

  double norm() const;  // the square root of `squares`
};
using StateSums = std::map<std::string, StateSum, std::less<>>;  // key: the kind of state

// Computes the StateSums of each parameter of one batch.
class SumVisitor : public EntryVisitor {
 public:
  explicit SumVisitor(const Batch& batch) : batch_(batch), sums_(batch.size()) {}
  void Begin(const StoredBlock& block, const StoredEntry& entry) override;
  void Add(const char* data, size_t bytes) override;
  void End(bool damaged) override;
  // Returns the sums of the parameter Batch::ParamAt(position).
  const StateSums& At(size_t position) const { return sums_[position]; }

 private:
  void AddTriangle();

  const Batch& batch_;
  std::vector<StateSums> sums_;
  std::vector<double> numbers_;
  // The following members belong to the entry between its Begin() and its End().
  StateSum* sum_ = nullptr;
  bool triangle_ = false;                      // the result of IsTriangle()
  double squares_ = 0, diagonal_squares_ = 0;  // sums of squares so far: of all elements, of the diagonal elements
  int64_t at_ = 0;                             // the index of the next element
  int64_t diagonal_ = 0;                       // the index of the next element on the diagonal
  int64_t row_ = 0;                            // the row of that diagonal element
};

}  // namespace shampoo::ckpt
