// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement_load.h"

#include <algorithm>
#include <numeric>

namespace bench {

Load Load::Of(const std::vector<double>& ranks) {
  return {*std::max_element(ranks.begin(), ranks.end()),
          std::accumulate(ranks.begin(), ranks.end(), 0.0) / static_cast<double>(ranks.size())};
}

}  // namespace bench
