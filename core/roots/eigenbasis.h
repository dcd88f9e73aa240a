// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/config/settings.h"
#include "core/roots/ladder.h"
#include "core/roots/matrix.h"
#include "core/roots/workspace.h"

namespace shampoo {

// How the eigenbasis of A = matrix + epsilon I is computed.
struct BasisSpec {
  BasisMethod method = BasisMethod::kEigen;
  BasisSort sort = BasisSort::kBefore;
  int64_t iterations = 1;  // of method qr: the number of orthogonal iterations
  double tolerance = 0;    // the key basis_tolerance; has an effect only if there is a previous basis
  double epsilon = 0;
  int64_t id = -1;  // see RootSpec::id
};

// Memory for bases of matrices up to n x n: Elements(n) elements and Ints(n) integers.
template <typename Real>
struct BasisMemory {
  RootWorkspace<Real> own;
  RecoveryMemory* recovery;  // float64 memory for use after a failure; not used if Real is double

  static int64_t Elements(int64_t n) { return RootWorkspace<Real>::Elements(RootMethod::kEigen, n); }
  static int64_t Ints(int64_t n) { return RootWorkspace<Real>::Ints(n); }

  // The new basis: an n x n matrix, row-major. Its columns are the eigenvectors.
  Real* Basis(int64_t n) const { return own.Work(n); }
  // n x n elements that the caller may use after the basis has been computed.
  Real* Spare(int64_t n) const { return own.Work(n) + n * n; }
  // How orthogonal iteration has sorted the columns of the previous basis (BasisSort::kBefore): n indices. Column i
  // after sorting is column Order()[i] of the previous basis.
  int32_t* Order() const { return own.ints; }
};

struct BasisOutcome {
  // root.kind is kScalar or kDiagonal if the basis is the identity and needed no computation. Otherwise root.kind is
  // kEigen.
  RootOutcome root;
  bool is_kept = false;  // whether the previous basis stays valid; if so, Basis() is undefined
};

// Computes an eigenbasis into memory.Basis(n). previous: the previous basis, n x n, or nullptr. Method qr starts from
// the previous basis. If spec.tolerance is above 0 and the previous basis is accurate enough, the previous basis is
// kept (BasisOutcome::is_kept). Exception: method qr with BasisSort::kAfter or kAscending sorts the columns of the
// previous basis. If this changes their sequence, the sorted basis is written to memory.Basis(n), and is_kept is false.
// Without a previous basis, methods eigen and qr both compute an eigendecomposition. Signs of the columns are
// arbitrary. The basis of a negligible matrix (IsNegligible) and of a 1 x 1 matrix is the identity, unless method qr
// starts from a previous basis. If the eigensolver fails in the dtype of the matrix, tries the float64 eigensolvers of
// the recovery ladder.
// Source: arXiv 2409.11321 (power iteration followed by QR).
template <typename Real>
BasisOutcome ComputeBasis(const BasisSpec& spec, const SymmetricView<Real>& matrix, const Real* previous,
                          const BasisMemory<Real>& memory);

}  // namespace shampoo
