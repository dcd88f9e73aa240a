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

// Permutes the indices of dim k: for each i, copies the elements of `from` with index order[i] along dim k to the
// elements of `to` with index i.
template <typename Real>
void PermuteDim(const Shape& shape, int k, const Real* from, const int32_t* order, Real* to);

}  // namespace shampoo
