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

// "factor" of "factor.1": what it is of all dims of a block together.
std::string_view KindOfState(std::string_view state);
// Whether files have the lower triangle of a symmetric matrix.
bool IsTriangle(std::string_view state);
// Elements of a file as numbers.
void WidenElements(const void* from, Dtype dtype, int64_t count, std::vector<double>* to);

// The states of one kind of a parameter, over its blocks.
struct StateSum {
  Dtype dtype = Dtype::kF32;
  int64_t entries = 0;
  double squares = 0;  // of all elements, of a symmetric matrix of both triangles
  double trace = 0;    // of symmetric matrices
  bool damaged = false;

  double norm() const;
};
using StateSums = std::map<std::string, StateSum, std::less<>>;  // by kind

// Sums up the states of the parameters of one batch.
class SumVisitor : public EntryVisitor {
 public:
  explicit SumVisitor(const Batch& batch) : batch_(batch), sums_(batch.size()) {}
  void Begin(const StoredBlock& block, const StoredEntry& entry) override;
  void Add(const char* data, size_t bytes) override;
  void End(bool damaged) override;
  const StateSums& At(size_t place) const { return sums_[place]; }

 private:
  void AddTriangle();

  const Batch& batch_;
  std::vector<StateSums> sums_;
  std::vector<double> numbers_;
  // Of the entry that is being added.
  StateSum* sum_ = nullptr;
  bool triangle_ = false;
  double squares_ = 0, diagonal_squares_ = 0;
  int64_t at_ = 0;        // of the next elements
  int64_t diagonal_ = 0;  // the next element on the diagonal, and its row
  int64_t row_ = 0;
};

}  // namespace shampoo::ckpt
