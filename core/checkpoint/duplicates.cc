// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/duplicates.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/catch_exceptions.h"

namespace shampoo {

// Exchanges about one MiB of items at a time, because all ranks together may have very many items.
Status FindDuplicates(const Ranks& ranks, const std::vector<Item>& own, Duplicates* duplicates) {
  constexpr size_t kNumbers = (size_t{1} << 20) / sizeof(int64_t);
  constexpr int64_t kMaxItems = int64_t{1} << 26;
  const size_t room = std::max(size_t{1}, kNumbers / 2 / static_cast<size_t>(ranks.world()));
  std::vector<int64_t> counts;
  const auto own_count = static_cast<int64_t>(own.size());
  SHAMPOO_RETURN_IF_ERROR(ranks.AllGatherInts({&own_count, 1}, &counts));
  size_t most = 0;
  std::unordered_multimap<int64_t, size_t> own_places;
  std::vector<int64_t> part;
  const auto prepare = [&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(ranks.CheckAllReceived("number of saved items", counts, 0, kMaxItems));
    most = std::max(own.size(), static_cast<size_t>(*std::max_element(counts.begin(), counts.end())));
    duplicates->is_duplicate.assign(own.size(), false);
    for (size_t i = 0; i < own.size(); ++i) own_places.emplace(own[i].id, i);
    part.resize(2 * std::min(room, most));
    return {};
  };
  SHAMPOO_RETURN_IF_ERROR(ranks.Agree(CatchExceptions(prepare)));
  std::vector<int64_t> all;
  for (size_t first = 0; first < most; first += room) {
    std::fill(part.begin(), part.end(), 0);
    for (size_t i = first; i < std::min(first + room, own.size()); ++i) {
      part[2 * (i - first)] = own[i].id;
      part[2 * (i - first) + 1] = own[i].contents;
    }
    SHAMPOO_RETURN_IF_ERROR(ranks.AllGatherInts(part, &all));
    for (size_t from = 0; from < static_cast<size_t>(ranks.rank()); ++from) {
      const size_t last = std::min(first + room, static_cast<size_t>(counts[from]));
      for (size_t i = first; i < last; ++i) {
        const int64_t* const item = &all[from * part.size() + 2 * (i - first)];
        const auto [begin, end] = own_places.equal_range(item[0]);
        for (auto place = begin; place != end; ++place) {
          duplicates->is_duplicate[place->second] = true;
          if (item[1] == own[place->second].contents || duplicates->differs_from >= 0) continue;
          duplicates->differs_from = static_cast<int>(from);
          duplicates->differs_in = place->second;
        }
      }
    }
  }
  return {};
}

}  // namespace shampoo
