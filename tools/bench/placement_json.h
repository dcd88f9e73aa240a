// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/bench/placement_load.h"
#include "tools/bench/placement_options.h"

namespace bench {

using Json = nlohmann::ordered_json;

// Returns the common members of all reports of shampoo_placement: how its plans were made.
Json HeadJson(const PlacementOptions& options);
Json LoadJson(const Load& load);
void WriteJson(const Json& report, const std::string& path);

}  // namespace bench
