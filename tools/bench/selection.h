// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/cases.h"
#include "tools/bench/options.h"
#include "tools/bench/session.h"

namespace bench {

// A row to measure.
struct Wanted {
  const Case* of = nullptr;
  Settings settings;
};

// Returns all rows of the options in the order of measurement. The number of threads varies fastest, so that rows of a
// comparison are measured shortly after each other. shapes: the user's own, or nullptr.
std::vector<Wanted> RowsFor(const Options& options, const Case* shapes);

}  // namespace bench
