// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/bench/runner.h"

namespace bench {

// Print the head and a row of the table of block sizes and frequencies.
void PrintGridHead(const Case& model, const std::vector<int64_t>& frequencies);
void PrintGridRow(const Row& row, const std::vector<int64_t>& frequencies);

// Writes a chart of some of the rows: those with the largest number of threads, and with the grafting method and the
// dtype of the first row.
void WriteGridChart(const std::vector<Row>& rows, const std::vector<int64_t>& frequencies, const std::string& path);

}  // namespace bench
