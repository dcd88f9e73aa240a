// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/bench/runner.h"

namespace bench {

// These functions print the head and a row of the table of --grid: step time and memory by block size. frequencies: for
// each of these values of precondition_frequency, the table has a column with the mean step time.
void PrintGridHead(const Case& model, const std::vector<int64_t>& frequencies);
void PrintGridRow(const Row& row, const std::vector<int64_t>& frequencies);

// Writes a chart of the rows that have the largest number of threads, and that also have the grafting method and the
// state dtype of rows[0]. frequencies: the chart has a curve for each of these values.
void WriteGridChart(const std::vector<Row>& rows, const std::vector<int64_t>& frequencies, const std::string& path);

}  // namespace bench
