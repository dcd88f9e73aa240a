// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Problems whose answer is known. The seed determines the random numbers of a problem. ' is the transpose.
//
//   kronecker       least squares: the target is x' W* z, where x and z are independent normal vectors whose covariance
//                   matrices have condition number 100 in random bases. Each step draws 64 pairs (x, z). The answer is
//                   W*.
//   low_rank        U V' = M, where M is a 40 x 60 matrix of rank 4. The answer is M.
//   rank_deficient  W P = W* P, where P projects rows of length 32 onto a random subspace of dimension 4. The rows of
//                   all gradients are in this subspace. The answer is the solution that is nearest to the start.
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
  double left[kRows * kRows];  // kronecker: square root of the covariance of x; rank_deficient: basis [kRank][kColumns]
  double right[kColumns * kColumns];  // kronecker: square root of the covariance of z
  double first_distance;
  uint64_t random_state;
} Problem;

void problem_create(Problem* problem, int kind, int seed);

// Draws a batch and writes `scale` times the gradient to problem->grads.
void problem_gradient(Problem* problem, double scale);

// Returns the distance to the answer, relative to the distance at the start. In rank_deficient, only the part in the
// span of the gradients counts.
double problem_distance(const Problem* problem);

// For rank_deficient: returns the norm of the movement outside of the span of the gradients, as a share of the norm of
// the whole movement. Returns 0 for the other problems.
double problem_outside(const Problem* problem);

#endif
