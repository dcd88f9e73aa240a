// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Optimization problems whose answer is known. The seed determines the random numbers of a problem. A' is the
// transpose of a matrix or vector A.
//
//   kronecker       Fits x' W z to x' W* z by least squares. x and z are independent normal vectors. Their covariance
//                   matrices have condition number 100 and random eigenvectors. Each step draws 64 pairs (x, z). The
//                   answer is W*.
//   low_rank        Solves U V' = M for U and V, where M is a 40 x 60 matrix of rank 4. The answer is the product M.
//   rank_deficient  Solves W P = W* P for W, where P projects rows of length 32 onto a random subspace of dimension 4.
//                   The rows of all gradients are in this subspace. The answer is the solution nearest to the start.
#ifndef BENCHMARKS_PROBLEMS_H
#define BENCHMARKS_PROBLEMS_H

#include <stdint.h>

#include "real.h"

enum { kKronecker, kLowRank, kRankDeficient, kProblems };
enum { kRows = 48, kColumns = 32, kLowRows = 40, kLowColumns = 60, kRank = 4 };
enum { kMaxProblemValues = kLowRows * kRank + kLowColumns * kRank + kRows * kColumns };

typedef struct {
  int kind;
  int tensor_count;
  int shapes[2][2];
  int offsets[2];
  real params[kMaxProblemValues];
  real grads[kMaxProblemValues];
  real start[kRows * kColumns];
  double answer[kLowRows * kLowColumns];
  // kronecker: square root of the covariance matrix of x. rank_deficient: basis of the subspace, [kRank][kColumns].
  double left[kRows * kRows];
  double right[kColumns * kColumns];  // kronecker: square root of the covariance matrix of z
  double first_distance;
  uint64_t random_state;
} Problem;

void problem_create(Problem* problem, int kind, int seed);

// Writes `scale` times the gradient to problem->grads. The gradient of kronecker is the mean over newly drawn pairs.
void problem_gradient(Problem* problem, double scale);

// Returns the distance to the answer, divided by the distance at the start. For rank_deficient, measures only the part
// of the distance that is in the span of the gradients.
double problem_distance(const Problem* problem);

// For rank_deficient, splits W minus the start into a part in the span of the gradients and a part orthogonal to the
// span. Returns the norm of the second part, divided by the norm of the whole. Returns 0 for the other problems.
double problem_outside(const Problem* problem);

#endif
