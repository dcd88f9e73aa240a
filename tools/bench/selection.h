// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/cases.h"
#include "tools/bench/options.h"
#include "tools/bench/session.h"

namespace bench {

// Model and settings of one row of the table of results.
struct RowSpec {
  const Case* model = nullptr;
  Settings settings;
};

// Returns all rows in the order in which they are measured. The number of threads varies fastest: rows that differ
// only in the number of threads are compared with each other, so they are measured one after another. shapes: the
// parameters from --shapes or --shapes-file, or nullptr if neither option is used.
std::vector<RowSpec> RowsFor(const Options& options, const Case* shapes);

}  // namespace bench
