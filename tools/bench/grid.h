// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/bench/runner.h"

namespace bench {

// These functions print the head and a row of the table of --grid: step time and memory by block size.
void PrintGridHead(const Case& model, const std::vector<int64_t>& frequencies);
void PrintGridRow(const Row& row, const std::vector<int64_t>& frequencies);

// Writes a chart of the rows that have the largest number of threads, and that also have the grafting method and the
// state dtype of the first row.
void WriteGridChart(const std::vector<Row>& rows, const std::vector<int64_t>& frequencies, const std::string& path);

}  // namespace bench
