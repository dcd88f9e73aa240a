// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace bench {

// The largest and the mean load of all ranks. A load is any number that each rank has, such as its bytes of state.
struct Load {
  double largest = 0;
  double mean = 0;
  double Imbalance() const { return mean > 0 ? largest / mean : 1; }

  // ranks: the load of each rank. There must be at least one rank.
  static Load Of(const std::vector<double>& ranks);
};

}  // namespace bench
