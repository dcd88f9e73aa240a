// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/state_difference.h"

#include <algorithm>
#include <cmath>

#include "capi/tools/ckpt/sums.h"
#include "core/base/hash.h"

namespace shampoo::ckpt {

void StateDifference::Add(std::span<const double> a, std::span<const double> b) {
  compared += static_cast<int64_t>(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ++different;
    double distance = std::abs(a[i] - b[i]);
    double ratio = distance / std::max(std::abs(a[i]), std::abs(b[i]));
    // If a[i] or b[i] is NaN or infinite, `ratio` is NaN, which std::max would ignore.
    if (!std::isfinite(distance)) distance = ratio = INFINITY;
    absolute = std::max(absolute, distance);
    relative = std::max(relative, ratio);
  }
}

Status StateComparer::Compare(const StoredBlock& a, const StoredBlock& b, std::string_view state,
                              StateDifference* difference) {
  const StoredEntry& a_entry = *a.Find(state);
  const StoredEntry& b_entry = *b.Find(state);
  StreamHash b_hash;
  int64_t at = 0;
  const auto visit = [&](const char* data, size_t bytes) -> Status {
    const auto count = static_cast<int64_t>(bytes / SizeOf(a_entry.dtype));
    b_bytes_.resize(static_cast<size_t>(count) * SizeOf(b_entry.dtype));
    SHAMPOO_RETURN_IF_ERROR(b_->ReadRange(b, b_entry, at, count, b_bytes_.data()));
    b_hash.Add(b_bytes_.data(), b_bytes_.size());
    AddChunks(data, a_entry.dtype, b_bytes_.data(), b_entry.dtype, count, difference);
    at += count;
    progress_->Add(static_cast<int64_t>(bytes));
    return {};
  };
  SHAMPOO_RETURN_IF_ERROR(a_->ForEachPiece(a, a_entry, visit));
  // visit() has read only as many elements of B's entry as A's entry has. If B's entry has more elements or is damaged,
  // b_hash differs from the checksum that B's index has for this entry, and Check() returns the error.
  return b_hash.value() == b_entry.checksum ? Status()
                                            : b_->Check(b, b_entry, at * static_cast<int64_t>(SizeOf(b_entry.dtype)));
}

Status StateComparer::CompareWindows(int64_t elements, std::span<const StoredBlock* const> a,
                                     std::span<const StoredBlock* const> b, std::string_view state,
                                     StateDifference* difference) {
  for (const StoredBlock* block : a) SHAMPOO_RETURN_IF_ERROR(a_->CheckElementwise(*block, *block->Find(state)));
  for (const StoredBlock* block : b) SHAMPOO_RETURN_IF_ERROR(b_->CheckElementwise(*block, *block->Find(state)));
  const Dtype a_dtype = a.front()->Find(state)->dtype;
  const Dtype b_dtype = b.front()->Find(state)->dtype;
  constexpr int64_t kWindow = int64_t{1} << 20;
  for (int64_t first = 0; first < elements; first += kWindow) {
    const int64_t count = std::min(kWindow, elements - first);
    a_bytes_.assign(static_cast<size_t>(count) * SizeOf(a_dtype), 0);
    b_bytes_.assign(static_cast<size_t>(count) * SizeOf(b_dtype), 0);
    SHAMPOO_RETURN_IF_ERROR(a_->ReadWindow(a, state, first, count, a_bytes_.data()));
    SHAMPOO_RETURN_IF_ERROR(b_->ReadWindow(b, state, first, count, b_bytes_.data()));
    AddChunks(a_bytes_.data(), a_dtype, b_bytes_.data(), b_dtype, count, difference);
    progress_->Add(static_cast<int64_t>(a_bytes_.size()));
  }
  return {};
}

void StateComparer::AddChunks(const char* a, Dtype a_dtype, const char* b, Dtype b_dtype, int64_t count,
                              StateDifference* difference) {
  constexpr int64_t kChunkElements = 1 << 14;
  for (int64_t first = 0; first < count; first += kChunkElements) {
    const int64_t elements = std::min(kChunkElements, count - first);
    WidenElements(a + first * static_cast<int64_t>(SizeOf(a_dtype)), a_dtype, elements, &a_numbers_);
    WidenElements(b + first * static_cast<int64_t>(SizeOf(b_dtype)), b_dtype, elements, &b_numbers_);
    difference->Add(a_numbers_, b_numbers_);
  }
}

}  // namespace shampoo::ckpt
