// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests which compute capabilities a build of the CUDA plugin (libshampoo_cuda.so) supports, for several lists of
// architectures.
#include "core/backend/cuda/plugin/compute_capability.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

namespace shampoo::cuda {
namespace {

TEST_CASE("a build supports the devices for which it contains code") {
  struct Case {
    const char* built_for;
    const char* text;
    std::vector<std::pair<int, int>> supported;
    std::vector<std::pair<int, int>> unsupported;
  };
  const std::vector<Case> cases = {
      {"80-real,90-real,100-real,100-virtual",
       "8.x, 9.x, 10.0 or later",
       {{8, 0}, {8, 6}, {9, 0}, {10, 0}, {12, 1}},
       {{7, 0}, {7, 5}, {0, 0}}},
      {"90-real", "9.x", {{9, 0}}, {{8, 9}, {10, 0}, {12, 0}}},
      {"86", "8.6 or later", {{8, 6}, {8, 9}, {9, 0}}, {{8, 0}}},
      {"86-real", "8.6 to 8.9", {{8, 6}, {8, 9}}, {{8, 0}, {9, 0}}},
      {"90a-real", "9.0", {{9, 0}}, {{9, 1}, {10, 0}}},
      {"90a", "9.0", {{9, 0}}, {{9, 1}, {10, 0}}},
      {"100f", "10.x", {{10, 0}, {10, 3}}, {{11, 0}, {12, 0}, {9, 0}}},
      {"103f-virtual", "10.3 to 10.9", {{10, 3}}, {{10, 0}, {12, 0}}},
      {"100f-real,120-virtual", "10.x, 12.0 or later", {{10, 0}, {10, 3}, {12, 1}}, {{11, 0}, {9, 0}}},
      {"", "", {{7, 5}, {9, 0}}, {}},
      {"80-virtual,90-real", "8.0 or later", {{8, 0}, {9, 0}, {10, 0}}, {{7, 5}}},
  };
  for (const Case& one : cases) {
    CAPTURE(std::string(one.built_for));
    CHECK(SupportedText(one.built_for) == one.text);
    for (const auto& [major, minor] : one.supported) CHECK(HasCodeFor(one.built_for, major, minor));
    for (const auto& [major, minor] : one.unsupported) CHECK_FALSE(HasCodeFor(one.built_for, major, minor));
  }
}

}  // namespace
}  // namespace shampoo::cuda
