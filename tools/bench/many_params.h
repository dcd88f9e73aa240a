// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// Prints the times of plan, create and step for each number of parameters of 1 to 8 elements. All three should grow in
// proportion to the number.
void MeasureManyParams(const std::vector<int64_t>& counts,
                       const std::vector<std::pair<std::string, std::string>>& keys);

}  // namespace bench
