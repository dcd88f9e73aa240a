// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// A C++ program that links libshampoo.a. The program is compiled without optimization, so the program and the archive
// both contain instances of the same templates of the C++ standard library. Each must use its own instances.
#include <shampoo/shampoo.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

int main() {
  std::map<std::string, std::vector<std::string>> words;
  words["b"] = {"z", "y"};
  words["a"].push_back(shampoo_build_info());
  std::sort(words["b"].begin(), words["b"].end());
  shampoo_config* config = nullptr;
  if (shampoo_config_create(&config) != SHAMPOO_OK) return 1;
  const bool refused = shampoo_config_set_f64(config, "no_such_key", 1) == SHAMPOO_E_INVALID;
  words["b"].push_back(shampoo_last_error());
  shampoo_config_destroy(config);
  std::printf("%d.%d.%d\n", SHAMPOO_VERSION_MAJOR, SHAMPOO_VERSION_MINOR, SHAMPOO_VERSION_PATCH);
  return refused && words["b"].front() == "y" && words["b"].back().find("no_such_key") != std::string::npos ? 0 : 1;
}
