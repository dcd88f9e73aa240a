// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/bench/placement_load.h"
#include "tools/bench/placement_options.h"

namespace bench {

using Json = nlohmann::ordered_json;

// Returns the start of every report of shampoo_placement: the options of its plans.
Json HeadJson(const PlacementOptions& options);
Json LoadJson(const Load& load);
void WriteJson(const Json& report, const std::string& path);

}  // namespace bench
