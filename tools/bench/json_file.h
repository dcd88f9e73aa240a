// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace bench {

using Json = nlohmann::ordered_json;

// Writes JSON to a file. Exits if this fails.
void WriteJsonFile(const Json& json, const std::string& path);

}  // namespace bench
