// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/workspace.h"

namespace shampoo {

// Catches a solver that returns a wrong result without an error, by what it does to one vector of random signs: O(n^2)
// beside the solver's O(n^3). A wrong result passes only if its error happens to be orthogonal to that vector.

// v <- the signs of ProbeSigns (core/rules/eigenvalue.h)
template <typename Root>
void FillSigns(int64_t n, Root* v);
// |a - b| relative to a vector of signs.
template <typename Root>
double Distance(int64_t n, const Root* a, const Root* b);

// For an eigendecomposition A = Q^T diag(l) Q.
template <typename Root>
class EigenProbe {
 public:
  EigenProbe(int64_t n, const RootWorkspace<Root>& workspace) : n_(n), workspace_(workspace) {}

  void BeforeSolve(const Root* a);  // the lower triangle
  // Whether Q^T diag(l) Q v = A v and Q^T Q v = v, both to rounding; false if anything is not finite.
  bool Fits(const Root* q, const Root* l) const;

 private:
  int64_t n_;
  const RootWorkspace<Root>& workspace_;
};

// |X^(power/2) A X^(power/2) v - v| / |v| for an inverse root X of A (both full); uses vectors 0 to 2 of the workspace.
// With A in the middle the rounding of a good X counts with the square root of the condition of A; in A X^power it
// counts with the condition itself, and hides what is wrong from what is merely rounded.
template <typename Root>
double RootResidual(int64_t n, const Root* a, const Root* x, int64_t power, const RootWorkspace<Root>& workspace);

}  // namespace shampoo
