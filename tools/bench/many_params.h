// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// Prints what a plan, an optimizer and a step of so many parameters of 1 to 8 elements cost, for each of the counts:
// all three grow in proportion to the count.
void MeasureManyParams(const std::vector<int64_t>& counts,
                       const std::vector<std::pair<std::string, std::string>>& keys);

}  // namespace bench
