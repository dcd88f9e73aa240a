// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace bench {

// Distribution of a load over the ranks.
struct Load {
  double largest = 0;
  double mean = 0;
  double Imbalance() const { return mean > 0 ? largest / mean : 1; }

  static Load Of(const std::vector<double>& ranks);
};

}  // namespace bench
