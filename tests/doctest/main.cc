// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

// If the environment variable SHAMPOO_TEST_CASE is the name of a test case, only this test case runs.
int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  if (const char* name = std::getenv("SHAMPOO_TEST_CASE"); name != nullptr && *name != '\0') {
    std::string filter = name;
    std::replace(filter.begin(), filter.end(), ',', '?');  // a comma separates filters; ? matches any character
    context.addFilter("test-case", filter.c_str());
  }
  return context.run();
}
