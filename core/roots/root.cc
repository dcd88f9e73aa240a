// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/root.h"

namespace shampoo {

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
    case RootFailure::kWrongResult:
      return "the solver returned a wrong result";
    case RootFailure::kNotConverged:
      return "the iteration did not converge to a root";
    case RootFailure::kSingular:
      return "the matrix is singular, or nearly so: its inverse root is not finite";
    case RootFailure::kOutOfRange:
      return "the inverse root is not finite in the dtype in which it is stored";
  }
  return "unknown";
}

const char* RungText(Rung rung) {
  switch (rung) {
    case Rung::kRequested:
      return "the requested method";
    case Rung::kFloat64:
      return "the same method in float64";
    case Rung::kEigen:
      return "eigendecomposition in float64";
    case Rung::kEigenRrr:
      return "eigendecomposition in float64 with the driver dsyevr";
    case Rung::kEigenQr:
      return "eigendecomposition in float64 with the driver dsyev";
    case Rung::kDeviceEigen:
      return "eigendecomposition of this single matrix on the device";
    case Rung::kDeviceNewton:
      return "a Newton iteration on the device";
  }
  return "unknown";
}

}  // namespace shampoo
