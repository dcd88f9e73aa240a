// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/state/entries.h"

namespace shampoo {
namespace {

int64_t TriangleBefore(int64_t row) { return row * (row + 1) / 2; }

bool StoresUpper(const StateEntry& entry) {
  return entry.form == SymmetricForm::kUpper || entry.form == SymmetricForm::kPackedUpper;
}

// For an entry that stores the upper triangle: calls visit(in, out) for all elements on and below the diagonal in rows
// [first, last). `in` is the element's index in the entry's memory, and `out` is its index in the packed rows, counted
// from the beginning of row `first`. Visits the elements in squares of kTile rows and columns, because a row in one of
// the two memories is a column in the other, and the memory of a square fits in the cache.
template <typename Visit>
void ForEachInTiles(const StateEntry& entry, int64_t first, int64_t last, Visit&& visit) {
  constexpr int64_t kTile = 32;
  const int64_t n = entry.shape[0];
  for (int64_t top = first; top < last; top += kTile) {
    const int64_t bottom = std::min(last, top + kTile);
    for (int64_t left = 0; left < bottom; left += kTile) {
      for (int64_t column = left; column < std::min(bottom, left + kTile); ++column) {
        // A column of the lower triangle is stored as a row of the upper triangle.
        const SymmetricRow kept = RowOf(entry.form, n, column);
        for (int64_t row = std::max(top, column); row < bottom; ++row) {
          visit(kept.first + row - kept.column, TriangleBefore(row) - TriangleBefore(first) + column);
        }
      }
    }
  }
}

// If kPack is true, copies from the memory of the entry to packed rows, otherwise from packed rows to the memory.
template <bool kPack, typename Element>
void CopyRows(const StateEntry& entry, int64_t first, int64_t last, std::conditional_t<kPack, const char, char>* memory,
              std::conditional_t<kPack, char, const char>* rows) {
  using Kept = std::conditional_t<kPack, const Element, Element>;
  using Packed = std::conditional_t<kPack, Element, const Element>;
  Kept* const kept = reinterpret_cast<Kept*>(memory);
  // memcpy is used, because the packed rows may be unaligned.
  const auto copy = [](Kept* in, auto* out, int64_t count) {
    const auto bytes = static_cast<size_t>(count) * sizeof(Element);
    if constexpr (kPack) {
      std::memcpy(out, in, bytes);
    } else {
      std::memcpy(in, out, bytes);
    }
  };
  const auto at = [rows](int64_t element) { return rows + element * static_cast<int64_t>(sizeof(Packed)); };
  if (!entry.symmetric()) return copy(kept + first, at(0), last - first);
  const int64_t n = entry.shape[0];
  if (StoresUpper(entry)) {
    ForEachInTiles(entry, first, last, [&](int64_t in, int64_t out) { copy(kept + in, at(out), 1); });
    return;
  }
  for (int64_t row = first; row < last; ++row) {
    copy(kept + RowOf(entry.form, n, row).first, at(TriangleBefore(row) - TriangleBefore(first)), row + 1);
  }
  if constexpr (!kPack) {
    if (entry.form != SymmetricForm::kSquare) return;
    for (int64_t row = first; row < last; ++row) {
      for (int64_t column = 0; column < row; ++column) {
        std::memcpy(kept + column * n + row, kept + row * n + column, sizeof(Element));
      }
    }
  }
}

template <bool kPack, typename Memory, typename Rows>
void CopyRowsOfEntry(const StateEntry& entry, int64_t first, int64_t last, Memory* memory, Rows* rows) {
  switch (SizeOf(entry.dtype)) {
    case 2:
      return CopyRows<kPack, uint16_t>(entry, first, last, memory, rows);
    case 4:
      return CopyRows<kPack, uint32_t>(entry, first, last, memory, rows);
    default:
      return CopyRows<kPack, uint64_t>(entry, first, last, memory, rows);
  }
}

}  // namespace

int64_t PackedRows(const StateEntry& entry) { return entry.symmetric() ? entry.shape[0] : entry.elements(); }

int64_t PackedBefore(const StateEntry& entry, int64_t row) { return entry.symmetric() ? TriangleBefore(row) : row; }

int64_t PackedBytes(const StateEntry& entry) {
  return PackedBefore(entry, PackedRows(entry)) * static_cast<int64_t>(SizeOf(entry.dtype));
}

int64_t LastRowWithin(const StateEntry& entry, int64_t first, int64_t elements) {
  const int64_t rows = PackedRows(entry);
  if (!entry.symmetric()) return std::min(rows, first + std::max(elements, int64_t{1}));
  int64_t last = first + 1;
  while (last < rows && PackedBefore(entry, last + 1) - PackedBefore(entry, first) <= elements) ++last;
  return last;
}

void PackRows(const StateEntry& entry, const char* memory, int64_t first, int64_t last, char* to) {
  CopyRowsOfEntry<true>(entry, first, last, memory, to);
}

void UnpackRows(const StateEntry& entry, const char* from, int64_t first, int64_t last, char* memory) {
  CopyRowsOfEntry<false>(entry, first, last, memory, from);
}

}  // namespace shampoo
