// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// Prints, for each number of parameters, the times to finish a plan, to create an optimizer and to make a step. A
// parameter has 1 to 8 elements. All three times should grow in proportion to the number of parameters.
void MeasureManyParams(const std::vector<int64_t>& counts,
                       const std::vector<std::pair<std::string, std::string>>& keys);

}  // namespace bench
