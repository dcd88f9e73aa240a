// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>

#include "tests/roots/high_precision.h"

namespace shampoo::roots_test {

// A symmetric matrix whose inverse roots are difficult to compute.
struct RandomMatrix {
  std::string kind;
  int64_t n = 0;
  Matrix a;
  double size = 0;  // approximately the largest eigenvalue
};

// Draws a matrix with n in 1 to 63. The kind determines the eigenvalues (condition up to 1e30, rank 0 to n, repeated,
// clustered, slightly negative or denormal) and the structure (dense, block-diagonal, nearly diagonal or diagonal).
// Unless the kind is denormal, half of the matrices are multiplied by a number from 1e-30 to 1e30. Elements are rounded
// to float32 if `float32` is true, otherwise to float64.
RandomMatrix MakeRandomMatrix(bool float32, std::mt19937_64* random);

}  // namespace shampoo::roots_test
