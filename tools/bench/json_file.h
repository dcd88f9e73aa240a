// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace bench {

using Json = nlohmann::ordered_json;

// Writes JSON to a file. If writing fails, the program ends.
void WriteJsonFile(const Json& json, const std::string& path);

}  // namespace bench
