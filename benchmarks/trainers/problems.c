// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "problems.h"

#include <math.h>
#include <string.h>

#include "random.h"

enum { kPairs = 64 };
static const double kCondition = 100;

// Draws a standard normal number by the method of Box and Muller.
static double normal(uint64_t* random_state) {
  const double u = 1 - random_uniform(random_state), v = random_uniform(random_state);
  return sqrt(-2 * log(u)) * cos(6.28318530717958647692 * v);
}

// Draws `count` orthonormal rows of length n.
static void draw_orthonormal(uint64_t* random_state, int count, int n, double* rows) {
  for (int i = 0; i < count; ++i) {
    double* row = rows + i * n;
    for (int j = 0; j < n; ++j) row[j] = normal(random_state);
    for (int k = 0; k < i; ++k) {
      double product = 0;
      for (int j = 0; j < n; ++j) product += row[j] * rows[k * n + j];
      for (int j = 0; j < n; ++j) row[j] -= product * rows[k * n + j];
    }
    double norm = 0;
    for (int j = 0; j < n; ++j) norm += row[j] * row[j];
    for (int j = 0; j < n; ++j) row[j] /= sqrt(norm);
  }
}

// Draws an n x n matrix A. Row i is sqrt(l_i) times a random unit vector q_i. The q_i are orthogonal, and l_i falls
// from 1 to 1 / kCondition. If v is a row vector of independent standard normal numbers, the covariance matrix of v A
// has the eigenvalues l_i and the eigenvectors q_i.
static void draw_covariance(uint64_t* random_state, int n, double* rows) {
  draw_orthonormal(random_state, n, n, rows);
  for (int i = 0; i < n; ++i) {
    const double root = pow(kCondition, -0.5 * i / (n - 1));
    for (int j = 0; j < n; ++j) rows[i * n + j] *= root;
  }
}

// Draws the vector v A that draw_covariance() describes, where A is `rows`.
static void draw_sample(uint64_t* random_state, int n, const double* rows, double* sample) {
  memset(sample, 0, sizeof(double) * (size_t)n);
  for (int i = 0; i < n; ++i) {
    const double weight = normal(random_state);
    for (int j = 0; j < n; ++j) sample[j] += weight * rows[i * n + j];
  }
}

static void create_low_rank(Problem* problem) {
  double u[kLowRows * kRank], v[kLowColumns * kRank];
  problem->tensor_count = 2;
  problem->shapes[0][0] = kLowRows;
  problem->shapes[1][0] = kLowColumns;
  problem->shapes[0][1] = problem->shapes[1][1] = kRank;
  problem->offsets[1] = kLowRows * kRank;
  for (int i = 0; i < kLowRows * kRank; ++i) u[i] = normal(&problem->random_state);
  for (int i = 0; i < kLowColumns * kRank; ++i) v[i] = normal(&problem->random_state);
  for (int i = 0; i < kLowRows; ++i) {
    for (int j = 0; j < kLowColumns; ++j) {
      double sum = 0;
      for (int k = 0; k < kRank; ++k) sum += u[i * kRank + k] * v[j * kRank + k];
      problem->answer[i * kLowColumns + j] = sum;
    }
  }
  for (int i = 0; i < (kLowRows + kLowColumns) * kRank; ++i) problem->params[i] = (real)normal(&problem->random_state);
}

static double low_rank_difference(const Problem* problem, int i, int j) {
  const real *u = problem->params + i * kRank, *v = problem->params + problem->offsets[1] + j * kRank;
  double sum = -problem->answer[i * kLowColumns + j];
  for (int k = 0; k < kRank; ++k) sum += (double)u[k] * v[k];
  return sum;
}

void problem_create(Problem* problem, int kind, int seed) {
  memset(problem, 0, sizeof *problem);
  problem->kind = kind;
  problem->random_state = (uint64_t)seed * 1000003 + (uint64_t)kind;
  if (kind == kLowRank) {
    create_low_rank(problem);
  } else {
    problem->tensor_count = 1;
    problem->shapes[0][0] = kRows;
    problem->shapes[0][1] = kColumns;
    for (int i = 0; i < kRows * kColumns; ++i) {
      problem->answer[i] = normal(&problem->random_state);
      problem->start[i] = problem->params[i] = (real)normal(&problem->random_state);
    }
    if (kind == kKronecker) {
      draw_covariance(&problem->random_state, kRows, problem->left);
      draw_covariance(&problem->random_state, kColumns, problem->right);
    } else {
      draw_orthonormal(&problem->random_state, kRank, kColumns, problem->left);
    }
  }
  problem->first_distance = 1;
  problem->first_distance = problem_distance(problem);
}

// Draws kPairs random pairs of vectors (x, z). Sets problem->grads to `scale` times the mean of (x' (W - W*) z) x z'
// over these pairs. W is problem->params, W* is problem->answer, and x' is the transpose of x.
static void kronecker_gradient(Problem* problem, double scale) {
  double sums[kRows * kColumns] = {0};
  for (int pair = 0; pair < kPairs; ++pair) {
    double x[kRows], z[kColumns], error = 0;
    draw_sample(&problem->random_state, kRows, problem->left, x);
    draw_sample(&problem->random_state, kColumns, problem->right, z);
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kColumns; ++j) {
        error += x[i] * (problem->params[i * kColumns + j] - problem->answer[i * kColumns + j]) * z[j];
      }
    }
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kColumns; ++j) sums[i * kColumns + j] += error * x[i] * z[j];
    }
  }
  for (int i = 0; i < kRows * kColumns; ++i) problem->grads[i] = (real)(scale * sums[i] / kPairs);
}

static void low_rank_gradient(Problem* problem, double scale) {
  double sums[(kLowRows + kLowColumns) * kRank] = {0};
  for (int i = 0; i < kLowRows; ++i) {
    for (int j = 0; j < kLowColumns; ++j) {
      const double difference = low_rank_difference(problem, i, j);
      for (int k = 0; k < kRank; ++k) {
        sums[i * kRank + k] += difference * problem->params[problem->offsets[1] + j * kRank + k];
        sums[(kLowRows + j) * kRank + k] += difference * problem->params[i * kRank + k];
      }
    }
  }
  for (int i = 0; i < (kLowRows + kLowColumns) * kRank; ++i) problem->grads[i] = (real)(scale * sums[i]);
}

// Projects each row of `matrix` onto the subspace that contains the rows of all gradients of the problem
// kRankDeficient.
static void project(const Problem* problem, const double* matrix, double* projected) {
  memset(projected, 0, sizeof(double) * kRows * kColumns);
  for (int i = 0; i < kRows; ++i) {
    for (int k = 0; k < kRank; ++k) {
      const double* basis = problem->left + k * kColumns;
      double product = 0;
      for (int j = 0; j < kColumns; ++j) product += matrix[i * kColumns + j] * basis[j];
      for (int j = 0; j < kColumns; ++j) projected[i * kColumns + j] += product * basis[j];
    }
  }
}

static double norm(int count, const double* values) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i] * values[i];
  return sqrt(sum);
}

static void subtract(const Problem* problem, double* difference) {
  for (int i = 0; i < kRows * kColumns; ++i) difference[i] = problem->params[i] - problem->answer[i];
}

void problem_gradient(Problem* problem, double scale) {
  double difference[kRows * kColumns], projected[kRows * kColumns];
  if (problem->kind == kKronecker) {
    kronecker_gradient(problem, scale);
  } else if (problem->kind == kLowRank) {
    low_rank_gradient(problem, scale);
  } else {
    subtract(problem, difference);
    project(problem, difference, projected);
    for (int i = 0; i < kRows * kColumns; ++i) problem->grads[i] = (real)(scale * projected[i]);
  }
}

double problem_distance(const Problem* problem) {
  if (problem->kind == kLowRank) {
    double sum = 0;
    for (int i = 0; i < kLowRows; ++i) {
      for (int j = 0; j < kLowColumns; ++j) sum += pow(low_rank_difference(problem, i, j), 2);
    }
    return sqrt(sum) / problem->first_distance;
  }
  double difference[kRows * kColumns], projected[kRows * kColumns];
  subtract(problem, difference);
  if (problem->kind == kKronecker) return norm(kRows * kColumns, difference) / problem->first_distance;
  project(problem, difference, projected);
  return norm(kRows * kColumns, projected) / problem->first_distance;
}

double problem_outside(const Problem* problem) {
  double moved[kRows * kColumns], projected[kRows * kColumns];
  if (problem->kind != kRankDeficient) return 0;
  for (int i = 0; i < kRows * kColumns; ++i) moved[i] = (double)problem->params[i] - problem->start[i];
  project(problem, moved, projected);
  const double whole = norm(kRows * kColumns, moved);
  for (int i = 0; i < kRows * kColumns; ++i) projected[i] = moved[i] - projected[i];
  return whole > 0 ? norm(kRows * kColumns, projected) / whole : 0;
}
