// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/config/nearest_name.h"

#include <algorithm>
#include <vector>

namespace shampoo {
namespace {

// Returns the Levenshtein distance: the least number of insertions, deletions and replacements of single letters that
// turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string FoldName(std::string_view name) {
  std::string folded(name);
  for (char& letter : folded) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    if (letter == '-') letter = '_';
  }
  return folded;
}

void NearestName::Consider(const char* candidate) {
  const std::string folded = FoldName(candidate);
  const size_t distance = EditDistance(name_, folded);
  if (distance >= least_ || 2 * distance > folded.size()) return;
  least_ = distance;
  found_ = candidate;
}

}  // namespace shampoo
