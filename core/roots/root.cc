// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/root.h"

namespace shampoo {

RootSpec MakeRootSpec(const Settings& settings, int64_t numerator, int64_t denominator, int64_t n, Dtype root_dtype) {
  RootSpec spec;
  spec.method = settings.root_method;
  spec.numerator = numerator;
  spec.denominator = denominator;
  spec.exponent = -settings.exponent_multiplier * static_cast<double>(denominator) / static_cast<double>(numerator);
  spec.epsilon = settings.epsilon;
  spec.relative_epsilon = settings.root_relative_epsilon;
  spec.tolerance = settings.root_tolerance;
  spec.max_iterations = settings.root_max_iterations;
  spec.order = settings.root_order;
  spec.pseudo_inverse = settings.root_rank_handling == RankHandling::kPseudoInverse;
  spec.rank_rtol =
      settings.root_rank_rtol >= 0 ? settings.root_rank_rtol : static_cast<double>(n) * MachineEpsilon(root_dtype);
  spec.rank_atol = settings.root_rank_atol;
  return spec;
}

const char* FailureText(RootFailure failure) {
  switch (failure) {
    case RootFailure::kNone:
      return "none";
    case RootFailure::kNanInput:
      return "the matrix contains NaN";
    case RootFailure::kInfInput:
      return "the matrix contains an infinity";
    case RootFailure::kSolver:
      return "the eigensolver did not converge";
    case RootFailure::kWrong:
      return "the solver gave a wrong result";
    case RootFailure::kNotConverged:
      return "the iteration did not converge to a root";
    case RootFailure::kSingular:
      return "the matrix is singular, or nearly so: its inverse root is not finite";
    case RootFailure::kOutOfRange:
      return "the inverse root is not finite in the dtype that has to hold it";
  }
  return "unknown";
}

const char* RungText(Rung rung) {
  switch (rung) {
    case Rung::kAsked:
      return "the method asked for";
    case Rung::kFloat64:
      return "the same method in float64";
    case Rung::kEigen:
      return "eigendecomposition in float64";
    case Rung::kEigenRrr:
      return "eigendecomposition in float64 with the driver dsyevr";
    case Rung::kEigenQr:
      return "eigendecomposition in float64 with the driver dsyev";
  }
  return "unknown";
}

}  // namespace shampoo
