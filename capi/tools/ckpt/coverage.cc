// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/coverage.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/text.h"

namespace shampoo::ckpt {
namespace {

constexpr int64_t kWindow = int64_t{1} << 22;  // number of elements that are examined together

// A set of elements of a parameter. Elements must be added in ascending order. Text() lists the first kMaxListed ranges
// of consecutive elements.
class ElementRanges {
 public:
  void Add(int64_t first, int64_t count = 1) {
    count_ += count;
    if (first != end_ && ++ranges_ <= kMaxListed) listed_.emplace_back(first, first);
    end_ = first + count;
    if (ranges_ <= kMaxListed) listed_.back().second = end_ - 1;
  }

  // Returns, for example, "0, 2, 64 to 127, 256 and 3 more ranges", or "" for no elements.
  std::string Text() const {
    std::string text;
    for (const auto& [first, last] : listed_) {
      text += Cat(text.empty() ? "" : ", ", first, first == last ? "" : Cat(" to ", last));
    }
    return ranges_ <= kMaxListed ? text : Cat(text, " and ", ranges_ - kMaxListed, " more ranges");
  }
  int64_t count() const { return count_; }

 private:
  static constexpr int64_t kMaxListed = 4;
  std::vector<std::pair<int64_t, int64_t>> listed_;  // first and last element of each range
  int64_t count_ = 0, ranges_ = 0, end_ = -1;
};

// Returns the number of consecutive elements, from element `first` on, that are in no block.
int64_t GapAt(const std::vector<const StoredBlock*>& blocks, int64_t first, int64_t elements) {
  int64_t next = elements;
  for (const StoredBlock* block : blocks) {
    if (block->place.first() >= next) break;
    const DenseRange range = Within(block->place, first, elements - first);
    if (range.begin == range.end) continue;
    ForEachRunOf(block->place, {range.begin, range.begin + 1},
                 [&next](int64_t, int64_t at, int64_t) { next = std::min(next, at); });
  }
  return next - first;
}

}  // namespace

std::string CoverageFault(const StoredParam& param, const std::vector<const StoredBlock*>& blocks) {
  const int64_t elements = param.elements();
  ElementRanges none;
  ElementRanges several;
  std::vector<unsigned char> holders;
  int64_t count = 0;
  for (int64_t first = 0; first < elements; first += count) {
    count = std::min(kWindow, elements - first);
    // A gap before the next block or after the last block may be too large to visit element by element.
    if (const int64_t gap = GapAt(blocks, first, elements); gap > 0) {
      count = gap;
      none.Add(first, count);
      continue;
    }
    holders.assign(static_cast<size_t>(count), 0);
    for (const StoredBlock* block : blocks) {
      if (block->place.first() >= first + count) break;
      ForEachRunOf(block->place, Within(block->place, first, count), [&](int64_t, int64_t at, int64_t n) {
        for (int64_t i = at - first; i < at - first + n; ++i) {
          unsigned char& held = holders[static_cast<size_t>(i)];
          held = static_cast<unsigned char>(held < 2 ? held + 1 : 2);
        }
      });
    }
    for (int64_t i = 0; i < count; ++i) {
      const unsigned char held = holders[static_cast<size_t>(i)];
      if (held == 0) none.Add(first + i);
      if (held > 1) several.Add(first + i);
    }
  }
  if (none.count() == 0 && several.count() == 0) return "";
  std::string text = Cat("parameter \"", param.name, "\": of its ", elements, " elements,");
  if (none.count() > 0) text += Cat(" ", none.count(), " are in no block: ", none.Text());
  if (none.count() > 0 && several.count() > 0) text += ";";
  if (several.count() > 0) text += Cat(" ", several.count(), " are in several blocks: ", several.Text());
  return text;
}

}  // namespace shampoo::ckpt
