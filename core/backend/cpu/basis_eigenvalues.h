// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "core/backend/cpu/basis_states.h"
#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/kronecker.h"
#include "core/backend/cpu/tensor_dims.h"
#include "core/base/kernels/kernels.h"
#include "core/blas/blas.h"
#include "core/blas/mirror.h"
#include "core/roots/eigenbasis.h"
#include "core/rules/basis.h"

namespace shampoo {

// Updates the eigenvalues of a block's factor matrices, and whitens tensors with these eigenvalues, for
// factor_correction=kl (arXiv 2509.03378). Whitening divides a tensor, along each dim, by the square roots of the
// eigenvalues of that dim. The state kl_scale holds the inverse square roots of the eigenvalues. core/rules/basis.h has
// the rules.
template <typename Real>
class BasisEigenvalues {
 public:
  BasisEigenvalues(const BlockContext<Real>& context, const BasisStates<Real>& states)
      : context_(context), states_(states), settings_(*context.program.settings), shape_(context.block.shape) {}

  // Sets all eigenvalues to FirstEigenvalue() of a gradient. Returns FirstTermScale(), which the caller needs only if
  // the gradient is the first gradient of the block.
  double Start(const BlockData<Real>& g) const {
    const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    const int factors = context_.block.present_factors();
    if (factors == 0) return 1;
    const int64_t row = context_.row() > 0 ? context_.row() : context_.block.elements;
    double square = 0;
    for (int64_t i = 0; i * row < context_.block.elements; ++i) {
      square += BestKernels().Of<Real>().sum_of_squares(g.data + i * g.ld, row);
    }
    const double scale = FirstEigenvalueScale(square, context_.block.elements, factors, context_.block.computation);
    for (int k = 0; k < dims(); ++k) {
      if (states_.has_factor(k)) std::fill_n(states_.scale(k), states_.d(k), static_cast<Real>(scale));
    }
    return FirstTermScale(settings_, scale, factors);
  }

  // Whitens a dense tensor along all dims except dim `except`. If `except` is -1, whitens along all dims. The tensor
  // must already be rotated to the eigenbases.
  void Whiten(int except, Real* tensor) const {
    for (int j = 0; j < dims(); ++j) {
      if (j != except && states_.has_factor(j)) ScaleDim(shape_, j, states_.scale(j), tensor);
    }
  }

  // Computes BasisStates::next_eigenvalues() of all dims from r, the gradient in the eigenbases. Returns false if an
  // eigenvalue overflows. Does not change the state; Store() does. decay: BasisScalars::eigenvalue_decay.
  bool Average(double decay, const Real* r) const {
    const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    Real* const scaled = context_.At(context_.layout.spare);
    for (int k = 0; k < dims(); ++k) {
      if (!states_.has_factor(k)) continue;
      std::copy_n(r, context_.block.elements, scaled);
      Whiten(k, scaled);
      double* const next = states_.next_eigenvalues(k);
      SquaresAlong(shape_, k, scaled, next);
      for (int64_t i = 0; i < states_.d(k); ++i) {
        const auto s = static_cast<double>(states_.scale(k)[i]);
        next[i] = NextEigenvalue(decay, s, states_.d(k), context_.block.elements, next[i]);
        if (!std::isfinite(next[i])) return false;
      }
    }
    return true;
  }

  // Stores the results of the last Average() in the state, for each dim for which ReplacesEigenvalues() is true. decay:
  // as passed to Average().
  void Store(double decay) const {
    for (int k = 0; k < dims(); ++k) {
      if (!states_.has_factor(k)) continue;
      const double* const next = states_.next_eigenvalues(k);
      const double mean = Mean(k, next);
      const auto has_term = [&] { return HasAnyTerm(k, decay); };
      if (!ReplacesEigenvalues(settings_, mean, context_.block.computation, has_term)) continue;
      StoreScales(k, next, KlCap(settings_, states_.d(k), mean));
    }
  }

  // Converts the eigenvalues of dim k from the basis Q_old to the basis Q_new. squares: the d x d squares of the
  // elements of Q_old^T Q_new.
  void Transport(int k, const Real* squares) const {
    const int64_t d = states_.d(k);
    double* const eigenvalues = states_.next_eigenvalues(k);
    std::fill_n(eigenvalues, d, 0.0);
    for (int64_t i = 0; i < d; ++i) {
      const auto s = static_cast<double>(states_.scale(k)[i]);
      for (int64_t j = 0; j < d; ++j) {
        eigenvalues[j] += TransportedTerm(static_cast<double>(squares[i * d + j]), s);
      }
    }
    for (int64_t j = 0; j < d; ++j) states_.scale(k)[j] = static_cast<Real>(TransportedScale(eigenvalues[j]));
  }

  // Sets the eigenvalues of dim k to the diagonal of Q^T (F / correction) Q, where F is the factor matrix and Q is the
  // eigenbasis of dim k. correction: BasisScalars::basis_correction.
  void TakeDiagonal(int k, double correction, const BasisMemory<Real>& memory) const {
    const int64_t d = states_.d(k);
    Real* const factor = memory.Spare(d);
    std::copy_n(states_.factor(k), d * d, factor);
    Mirror(d, factor);
    Real* const product = memory.own.Matrix(d);
    blas::Gemm(d, d, d, factor, d, states_.basis(k), d, product, d);
    double* const eigenvalues = states_.next_eigenvalues(k);
    std::fill_n(eigenvalues, d, 0.0);
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        eigenvalues[j] += static_cast<double>(states_.basis(k)[i * d + j]) * static_cast<double>(product[i * d + j]);
      }
    }
    for (int64_t j = 0; j < d; ++j) eigenvalues[j] /= correction;
    StoreScales(k, eigenvalues, KlCap(settings_, states_.d(k), Mean(k, eigenvalues)));
  }

 private:
  int dims() const { return states_.dims(); }

  // Returns whether the gradient has contributed to the moving average of any eigenvalue of dim k.
  bool HasAnyTerm(int k, double decay) const {
    const double* const next = states_.next_eigenvalues(k);
    for (int64_t i = 0; i < states_.d(k); ++i) {
      if (HasTerm(decay, static_cast<double>(states_.scale(k)[i]), next[i])) return true;
    }
    return false;
  }

  double Mean(int k, const double* eigenvalues) const {
    return std::accumulate(eigenvalues, eigenvalues + states_.d(k), 0.0) / static_cast<double>(states_.d(k));
  }

  void StoreScales(int k, const double* eigenvalues, double cap) const {
    for (int64_t i = 0; i < states_.d(k); ++i) states_.scale(k)[i] = static_cast<Real>(KlScale(eigenvalues[i], cap));
  }

  const BlockContext<Real>& context_;
  const BasisStates<Real>& states_;
  const Settings& settings_;
  const Shape& shape_;
};

}  // namespace shampoo
