// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/workspace.h"

namespace shampoo {

// These checks detect a wrong result of a solver that reports success. They multiply the result by one vector of
// pseudo-random signs (1 or -1), which takes O(n^2) operations. The solver takes O(n^3) operations. If the result is
// wrong by a matrix E, a check detects this unless the product of E and that vector happens to be near 0.

// Sets the n elements of v to the signs of ProbeSigns (core/rules/eigenvalue.h).
template <typename Root>
void FillSigns(int64_t n, Root* v);
// Returns |a - b| / |v|, where v is a vector of n signs, so |v| is sqrt(n).
template <typename Root>
double Distance(int64_t n, const Root* a, const Root* b);

// Checks an eigendecomposition A = Q^T diag(l) Q, in which the rows of Q are the eigenvectors.
template <typename Root>
class EigenProbe {
 public:
  EigenProbe(int64_t n, const RootWorkspace<Root>& workspace) : n_(n), workspace_(workspace) {}

  // Sets vector 1 of the workspace to v, the vector of FillSigns(), and vector 2 to A v. `a` holds the lower triangle
  // of A. Call this before the solver destroys A.
  void BeforeSolve(const Root* a);
  // Returns true if l is ascending, Q^T diag(l) Q v = A v and Q^T Q v = v up to rounding, and all elements of Q and l
  // are finite.
  bool Fits(const Root* q, const Root* l) const;

 private:
  int64_t n_;
  const RootWorkspace<Root>& workspace_;
};

// Returns |X^i A X^j v - v| / |v| for an inverse root X = A^(-1 / power). X and A are stored in full. v is the vector
// of FillSigns. j is half of `power`, rounded down, and i is power - j. In the product X^i A X^j, rounding errors of X
// are multiplied by the square root of the condition number of A. In the product A X^power, they would be multiplied by
// the condition number itself, and a wrong X could not be distinguished from a correct, rounded X. Uses vectors 0 to 2
// of the workspace.
template <typename Root>
double RootResidual(int64_t n, const Root* a, const Root* x, int64_t power, const RootWorkspace<Root>& workspace);

}  // namespace shampoo
