// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// Prints, for each number of parameters, the times to make a plan, to create an optimizer and to make a step. Each
// parameter has 1 to 8 elements. All three times should grow in proportion to the number of parameters. The last column
// is the time in which the bytes of a step can be read and written at the measured bandwidth of the memory.
void MeasureManyParams(const std::vector<int64_t>& counts,
                       const std::vector<std::pair<std::string, std::string>>& keys);

}  // namespace bench
