// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/plan/shape.h"

// Operations along one dim of a dense tensor.
namespace shampoo {

// Multiplies the elements with index i along dim k by scale[i].
template <typename Real>
void ScaleDim(const Shape& shape, int k, const Real* scale, Real* tensor);

// Writes to sums[i] the sum of the squares of all elements with index i along dim k, in float64.
template <typename Real>
void SquaresAlong(const Shape& shape, int k, const Real* tensor, double* sums);

// Permutes the slices along dim k: for each i, copies slice order[i] of `from` to slice i of `to`.
template <typename Real>
void PermuteDim(const Shape& shape, int k, const Real* from, const int32_t* order, Real* to);

}  // namespace shampoo
