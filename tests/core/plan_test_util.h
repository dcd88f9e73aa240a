// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/plan/shape.h"

namespace shampoo {

inline std::string Print(const Shape& shape) { return nlohmann::json(shape.View()).dump(); }

// Lets doctest print a shape in a failed comparison.
inline doctest::String toString(const Shape& shape) { return Print(shape).c_str(); }

}  // namespace shampoo

namespace shampoo::plan_test {

// Returns the entries of tests/golden/data/partition/<name>.json, which the reference implementation computed.
inline nlohmann::json GoldenEntries(const std::string& name) {
  const std::string path = std::string(SHAMPOO_GOLDEN_DIR) + "/partition/" + name + ".json";
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path);
  return nlohmann::json::parse(file).at("entries");
}

inline Shape ShapeFrom(const nlohmann::json& dims) { return Shape::Of(dims.get<std::vector<int64_t>>()); }

// Returns whether a dim has length 0. Tests skip golden entries whose shape has such a dim, because a parameter without
// elements has no blocks in libshampoo.
inline bool HasEmptyDim(const Shape& shape) { return std::ranges::count(shape.View(), 0) > 0; }

// Returns a random number from `least` to `largest`. Unlike the standard distributions, this function gives the same
// numbers with every standard library, so a seed gives the same cases everywhere.
inline int64_t Draw(std::mt19937_64& random, int64_t least, int64_t largest) {
  return least + static_cast<int64_t>(random() % static_cast<uint64_t>(largest - least + 1));
}

inline Shape DrawShape(std::mt19937_64& random, int ndim, int64_t largest_dim) {
  Shape shape;
  for (int dim = 0; dim < ndim; ++dim) shape.Append(Draw(random, 1, largest_dim));
  return shape;
}

// Returns the coordinates of every element of a row-major tensor, in memory order. Increments the
// coordinates of an element to get those of the next one, without strides, so that tests can check strides.
inline std::vector<std::vector<int64_t>> AllCoordinates(const Shape& shape) {
  std::vector<std::vector<int64_t>> all;
  std::vector<int64_t> at(static_cast<size_t>(shape.ndim), 0);
  for (;;) {
    all.push_back(at);
    int dim = shape.ndim - 1;
    while (dim >= 0 && ++at[static_cast<size_t>(dim)] == shape[dim]) at[static_cast<size_t>(dim--)] = 0;
    if (dim < 0) return all;
  }
}

}  // namespace shampoo::plan_test
