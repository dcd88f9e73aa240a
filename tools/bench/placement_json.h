// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/bench/json_file.h"
#include "tools/bench/placement_load.h"
#include "tools/bench/placement_options.h"

namespace bench {

// Returns the members that all reports of shampoo_placement begin with: the build of the library and the settings of
// the plans.
Json HeadJson(const PlacementOptions& options);
// Returns the largest and the mean load as JSON.
Json JsonOf(const Load& load);

}  // namespace bench
