// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/coverage.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/text.h"

namespace shampoo::ckpt {
namespace {

constexpr int64_t kWindow = int64_t{1} << 22;  // elements

// Elements, added by rising number, told as a few stretches.
class Elements {
 public:
  void Add(int64_t element) {
    ++count_;
    if (element != end_ && ++stretches_ <= kMostTold) told_.emplace_back(element, element);
    if (stretches_ <= kMostTold) told_.back().second = element;
    end_ = element + 1;
  }

  // "64 to 127, 256 and 3 more stretches"; "" for none
  std::string Text() const {
    std::string text;
    for (const auto& [first, last] : told_) {
      text += Cat(text.empty() ? "" : ", ", first, first == last ? "" : Cat(" to ", last));
    }
    return stretches_ <= kMostTold ? text : Cat(text, " and ", stretches_ - kMostTold, " more stretches");
  }
  int64_t count() const { return count_; }

 private:
  static constexpr int64_t kMostTold = 4;
  std::vector<std::pair<int64_t, int64_t>> told_;
  int64_t count_ = 0, stretches_ = 0, end_ = -1;
};

}  // namespace

std::string CoverageFault(const StoredParam& param, const std::vector<const StoredBlock*>& blocks) {
  const int64_t elements = param.elements();
  Elements none;
  Elements several;
  std::vector<unsigned char> holders;
  for (int64_t first = 0; first < elements; first += kWindow) {
    const int64_t count = std::min(kWindow, elements - first);
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
  std::string text = Cat("parameter \"", param.name, "\": of its ", elements, " elements");
  if (none.count() > 0) text += Cat(" ", none.count(), " are in no block: ", none.Text());
  if (none.count() > 0 && several.count() > 0) text += ";";
  if (several.count() > 0) text += Cat(" ", several.count(), " are in several blocks: ", several.Text());
  return text;
}

}  // namespace shampoo::ckpt
