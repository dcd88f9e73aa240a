// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/roots/random_matrix.h"

#include <algorithm>
#include <cmath>

namespace shampoo::roots_test {
namespace {

double Uniform(double least, double most, std::mt19937_64* random) {
  return std::uniform_real_distribution<double>(least, most)(*random);
}

int64_t Integer(int64_t least, int64_t most, std::mt19937_64* random) {
  return std::uniform_int_distribution<int64_t>(least, most)(*random);
}

// Computes A <- H A H with a random Householder reflection H on rows and columns [first, last). If `strength` is small,
// H is nearly diagonal.
void Reflect(int64_t n, int64_t first, int64_t last, double strength, std::mt19937_64* random, Matrix* a) {
  std::vector<Wide> v(static_cast<size_t>(n), 0);
  Wide square = 0;
  for (int64_t i = first; i < last; ++i) {
    Wide& element = v[static_cast<size_t>(i)];
    element = std::normal_distribution<double>()(*random) * (i == first ? 1.0 : strength);
    square += element * element;
  }
  if (square == 0) return;
  for (int side = 0; side < 2; ++side) {
    for (int64_t i = 0; i < n; ++i) {
      auto at = [&](int64_t j) -> Wide& { return (*a)[static_cast<size_t>(side == 0 ? i * n + j : j * n + i)]; };
      Wide dot = 0;
      for (int64_t j = first; j < last; ++j) dot += at(j) * v[static_cast<size_t>(j)];
      for (int64_t j = first; j < last; ++j) at(j) -= 2 * dot / square * v[static_cast<size_t>(j)];
    }
  }
}

constexpr const char* kKinds[] = {"condition",       "rank",     "repeated", "negative", "blocks",
                                  "nearly diagonal", "diagonal", "denormal", "cluster"};

std::vector<Wide> Eigenvalues(const std::string& kind, int64_t n, std::mt19937_64* random) {
  const double decades = Uniform(0, 30, random);
  std::vector<Wide> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(std::pow(10.0L, -Uniform(0, decades, random)));
  values[0] = 1;
  if (kind == "rank") {
    const int64_t rank = Integer(0, n, random);
    for (int64_t i = rank; i < n; ++i) values[static_cast<size_t>(i)] = 0;
  } else if (kind == "repeated") {
    const int64_t distinct = Integer(1, std::min<int64_t>(n, 3), random);
    for (int64_t i = distinct; i < n; ++i) values[static_cast<size_t>(i)] = values[static_cast<size_t>(i % distinct)];
  } else if (kind == "negative") {
    for (int64_t i = 1; i < n; i += 3) values[static_cast<size_t>(i)] = -std::pow(10.0L, -Uniform(5, 12, random));
  } else if (kind == "cluster") {
    for (Wide& value : values) value = 1 + 1e-9L * Uniform(-1, 1, random);
  }
  return values;
}

}  // namespace

RandomMatrix MakeRandomMatrix(bool float32, std::mt19937_64* random) {
  RandomMatrix made;
  made.kind = kKinds[Integer(0, std::size(kKinds) - 1, random)];
  // The exponent 2.5 makes small matrices more frequent, so that each kind also occurs in small sizes.
  made.n = std::max<int64_t>(1, static_cast<int64_t>(64 * std::pow(Uniform(0, 1, random), 2.5)));
  const int64_t n = made.n;
  const std::vector<Wide> values = Eigenvalues(made.kind, n, random);
  made.a.assign(static_cast<size_t>(n * n), 0);
  for (int64_t i = 0; i < n; ++i) made.a[static_cast<size_t>(i * n + i)] = values[static_cast<size_t>(i)];
  if (made.kind == "blocks") {
    const int64_t half = n / 2;
    for (int k = 0; k < 3; ++k) Reflect(n, 0, half, 1, random, &made.a);
    for (int k = 0; k < 3; ++k) Reflect(n, half, n, 1, random, &made.a);
  } else if (made.kind == "nearly diagonal") {
    Reflect(n, 0, n, std::pow(10.0, -Uniform(2, 12, random)), random, &made.a);
  } else if (made.kind != "diagonal") {
    for (int k = 0; k < 4; ++k) Reflect(n, 0, n, 1, random, &made.a);
  }
  double scale = 1;
  if (made.kind == "denormal") {
    scale = std::pow(10.0, float32 ? -Uniform(37, 44, random) : -Uniform(307, 320, random));
  } else if (Integer(0, 1, random) == 1) {
    scale = std::pow(10.0, Uniform(-30, 30, random));
  }
  made.size = scale;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const Wide element = made.a[static_cast<size_t>(i * n + j)] * static_cast<Wide>(scale);
      const Wide rounded =
          float32 ? static_cast<Wide>(static_cast<float>(element)) : static_cast<Wide>(static_cast<double>(element));
      made.a[static_cast<size_t>(i * n + j)] = rounded;
      made.a[static_cast<size_t>(j * n + i)] = rounded;
    }
  }
  return made;
}

}  // namespace shampoo::roots_test
