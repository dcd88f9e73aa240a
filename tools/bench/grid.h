// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/bench/runner.h"

namespace bench {

// The head of the table to choose block size and frequency from, and a line of it.
void PrintGridHead(const Case& of, const std::vector<int64_t>& frequencies);
void PrintGridRow(const Row& row, const std::vector<int64_t>& frequencies);

// The rows with the most threads and the first grafting method and dtype, as a plot.
void WriteGridChart(const std::vector<Row>& rows, const std::vector<int64_t>& frequencies, const std::string& path);

}  // namespace bench
