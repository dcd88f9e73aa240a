// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/backend/cpu/magnitude.h"
#include "core/base/convert.h"

namespace shampoo {
namespace {

TEST_CASE("the largest magnitude, infinities and NaN are found in every dtype at every place") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBf16}) {
    for (size_t n : {1, 2, 31, 100}) {
      for (size_t place = 0; place < n; ++place) {
        std::vector<double> values(n, 0.5);
        std::vector<uint64_t> stored(n);
        auto largest_with = [&](double special) {
          values[place] = special;
          Narrow(values.data(), stored.data(), dtype, static_cast<int64_t>(n));
          return LargestMagnitude(stored.data(), dtype, static_cast<int64_t>(n));
        };
        CHECK(largest_with(-8.0) == 8.0);
        CHECK(FindNonFinite(stored.data(), dtype, static_cast<int64_t>(n)) == -1);
        CHECK(largest_with(-infinity) == infinity);
        CHECK(FindNonFinite(stored.data(), dtype, static_cast<int64_t>(n)) == static_cast<int64_t>(place));
        CHECK(std::isnan(largest_with(std::nan(""))));
        CHECK(FindNonFinite(stored.data(), dtype, static_cast<int64_t>(n)) == static_cast<int64_t>(place));
      }
    }
  }
  CHECK(LargestMagnitude(nullptr, Dtype::kF32, 0) == 0);
}

}  // namespace
}  // namespace shampoo
