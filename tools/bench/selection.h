// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/cases.h"
#include "tools/bench/options.h"
#include "tools/bench/session.h"

namespace bench {

// A row that is to be measured.
struct Wanted {
  const Case* of = nullptr;
  Settings settings;
};

// All rows that the options ask for, in the order in which they are measured: by threads last, so that the rows of a
// comparison lie close together in time. shapes: the user's own, or nullptr.
std::vector<Wanted> RowsFor(const Options& options, const Case* shapes);

}  // namespace bench
