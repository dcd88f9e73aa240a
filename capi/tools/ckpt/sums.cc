// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/sums.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "core/base/convert.h"
#include "core/plan/block_states.h"

namespace shampoo::ckpt {
namespace {

template <typename Integer>
void WidenIntegers(const void* from, std::vector<double>* to) {
  const char* element = static_cast<const char*>(from);
  for (double& number : *to) {
    Integer integer;
    std::memcpy(&integer, element, sizeof integer);
    number = static_cast<double>(integer);
    element += sizeof integer;
  }
}

}  // namespace

std::string_view KindOfState(std::string_view state) { return state.substr(0, state.find('.')); }

bool IsTriangle(std::string_view state) {
  return std::ranges::find(kSymmetricStates, KindOfState(state)) != std::end(kSymmetricStates);
}

void WidenElements(const void* from, Dtype dtype, int64_t count, std::vector<double>* to) {
  to->resize(static_cast<size_t>(count));
  switch (dtype) {
    case Dtype::kI32:
      return WidenIntegers<int32_t>(from, to);
    case Dtype::kI64:
      return WidenIntegers<int64_t>(from, to);
    default:
      return Widen(from, dtype, to->data(), count);
  }
}

double StateSum::norm() const { return std::sqrt(squares); }

void SumVisitor::Begin(const StoredBlock& block, const StoredEntry& entry) {
  sum_ = &sums_[batch_.PositionOf(block)][std::string(KindOfState(entry.state))];
  sum_->dtype = entry.dtype;
  ++sum_->entries;
  triangle_ = IsTriangle(entry.state);
  squares_ = diagonal_squares_ = 0;
  at_ = diagonal_ = row_ = 0;
}

void SumVisitor::Add(const char* data, size_t bytes) {
  constexpr int64_t kChunkElements = 1 << 14;
  const auto size = static_cast<int64_t>(SizeOf(sum_->dtype));
  const auto count = static_cast<int64_t>(bytes) / size;
  for (int64_t first = 0; first < count; first += kChunkElements) {
    WidenElements(data + first * size, sum_->dtype, std::min(kChunkElements, count - first), &numbers_);
    for (const double number : numbers_) squares_ += number * number;
    if (triangle_) AddTriangle();
  }
}

void SumVisitor::AddTriangle() {
  const auto end = at_ + static_cast<int64_t>(numbers_.size());
  for (; diagonal_ < end; diagonal_ += ++row_ + 1) {
    const double number = numbers_[static_cast<size_t>(diagonal_ - at_)];
    sum_->trace += number;
    diagonal_squares_ += number * number;
  }
  at_ = end;
}

void SumVisitor::End(bool damaged) {
  // squares_ is the sum over the stored triangle. The matrix contains each off-diagonal element of this triangle twice.
  sum_->squares += triangle_ ? 2 * squares_ - diagonal_squares_ : squares_;
  sum_->damaged = sum_->damaged || damaged;
}

}  // namespace shampoo::ckpt
