// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>

#include "tests/golden/safetensors.h"

// Perturbations as large as the rounding errors of shampoo_replay, which repeats recorded computations. They show how
// much its results may change with another processor or another BLAS. Only tensors of float32 and float64 change.
// Elements in 16 bits keep their values, because rounding to 16 bits has far larger errors than the computation. Zeros
// also keep their values, so that diagonal matrices remain diagonal.
namespace shampoo::golden {

// Moves each element by up to two units in the last place.
void PerturbElements(Tensor* tensor, std::mt19937_64* random);

// Changes each element of an n x n matrix by up to n times the machine epsilon times the largest magnitude of an
// element. This product bounds the backward error of an eigensolver.
void PerturbMatrix(Tensor* matrix, std::mt19937_64* random);

}  // namespace shampoo::golden
