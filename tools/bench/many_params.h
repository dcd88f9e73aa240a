// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// Prints the cost of a plan, an optimizer and a step of many parameters with 1 to 8 elements, for each of the counts.
// All three costs should grow in proportion to the count.
void MeasureManyParams(const std::vector<int64_t>& counts,
                       const std::vector<std::pair<std::string, std::string>>& keys);

}  // namespace bench
