// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/backend/cpu/apply_pass.h"
#include "core/backend/cpu/average_pass.h"
#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/fit_check.h"
#include "core/backend/cpu/kronecker.h"
#include "core/backend/cpu/norm_control_pass.h"
#include "core/base/kernels/kernels.h"
#include "core/rules/norms.h"

namespace shampoo {

// Reads the gradient of a block, and applies the direction that the method of the block has computed.
template <typename Real>
class BlockIo {
 public:
  explicit BlockIo(const BlockContext<Real>& context) : context_(context) {}

  // Returns the caller's gradient if it can be used in place. Otherwise, writes the gradient in the computation dtype,
  // scaled and with coupled weight decay (LoadGradient()), to layout.gradient, and returns this dense array.
  BlockData<Real> ReadGradient() const {
    const bool as_it_is = context_.item.param->desc.grad_dtype == DtypeOf<Real>() &&
                          context_.program.gradient_scale == 1 && context_.program.coupled_decay == 0;
    const int64_t row = context_.row();
    if (as_it_is && (context_.block.order() == 2 || DenseInBuffer())) {
      const auto* const data = static_cast<const Real*>(context_.item.buffers->grad) + context_.block.offset;
      return {data, context_.block.order() == 2 && context_.block.shape[0] > 1 ? context_.block.stride[0] : row};
    }
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    Real* const g = context_.At(context_.layout.gradient);
    scope.ForEach(PartCount(context_.block.elements), [&](int64_t i) {
      LoadGradient(context_.program, *context_.item.param, context_.block, *context_.item.buffers,
                   PartAt(context_.block.elements, i), g);
    });
    return {g, row};
  }

  // Returns the norm of a dense array with as many elements as the block.
  double Norm(const Real* p) const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    return std::sqrt(SumOverParts(context_.block.elements, &scope, [&](const Range& part) {
      return BestKernels().Of<Real>().sum_of_squares(p + part.begin, part.end - part.begin);
    }));
  }

  // Scales or limits a direction according to the keys of the group (core/rules/norms.h), and applies it with
  // ApplyDirection(). If a result would not be finite, skips the update instead. The direction is
  // p * scale.down * scale.up, and its norm is scale.size.
  void Apply(const Real* p, const DirectionScale& scale) const {
    const Settings& settings = *context_.program.settings;
    const Block& block = context_.block;
    if (!std::isfinite(scale.size)) {
      Write(context_.program, p, scale);
      return;
    }
    const int64_t rows = RowsToScale(settings, block.has_orthogonal_direction(), block.matrix_rows);
    const DirectionScale sized = LimitNorm(settings, block.elements, rows, block.matrix_columns, scale);
    if (settings.averaging != Averaging::kNone) {
      ApplyAveraged(p, sized);
      return;
    }
    if (!settings.controls_norm() || block.matrix_rows == 0) {
      Write(context_.program, p, sized);
      return;
    }
    ApplyControlled(p, sized);
  }

  // Completes a step that does not change the parameter. zeros: working memory for as many elements as the block has.
  void ApplyNothing(Real* zeros) const {
    std::fill(zeros, zeros + context_.block.elements, Real{0});
    StepProgram program = context_.program;
    program.decoupled_decay = 0;
    program.shrinkage = 0;
    Write(program, zeros, {1, 1, 0});
  }

 private:
  // Applies a direction in a group that sets the key norm_control or update_floor.
  void ApplyControlled(const Real* p, const DirectionScale& scale) const {
    const Settings& settings = *context_.program.settings;
    const NormControlPass<Real> pass(context_, p, scale);
    const bool is_on_hyperball = settings.norm_control == NormControl::kHyperball;
    double radius = is_on_hyperball ? ReadRadius() : 0;
    if (is_on_hyperball && radius == 0) radius = pass.ParamNorm();
    Real* const first = context_.At(context_.layout.direction[0]);
    Real* const difference = p == first ? context_.At(context_.layout.direction[1]) : first;
    if (!pass.Subtract(radius, difference)) return SkipUpdate(context_.item);
    if (Subtract(difference, nullptr) && is_on_hyperball) StoreRadius(radius);
  }

  // Applies a direction in a group that sets the key averaging.
  void ApplyAveraged(const Real* p, const DirectionScale& scale) const {
    // p may point to one of these buffers. The step no longer needs any other data in these buffers.
    const int64_t buffers[] = {context_.layout.direction[0], context_.layout.direction[1], context_.layout.gradient};
    Real* free[2];
    size_t found = 0;
    for (const int64_t buffer : buffers) {
      if (found < 2 && context_.At(buffer) != p) free[found++] = context_.At(buffer);
    }
    AveragingPass<Real>(context_, p, scale).Run(free[0], free[1]);
    Subtract(free[0], free[1]);
  }

  // Subtracts a difference, which includes weight decay, from the parameter. Returns false if the update is skipped.
  // iterate: see AverageTracker.
  bool Subtract(const Real* difference, const Real* iterate) const {
    StepProgram program = context_.program;
    program.decoupled_decay = 0;
    program.shrinkage = 0;
    program.lr = 1;
    return Write(program, difference, {1, 1, Norm(difference)}, iterate);
  }

  bool DenseInBuffer() const {
    const std::array<int64_t, kMaxDims> dense = DenseStrides(context_.block);
    for (int k = 0; k < context_.block.order(); ++k) {
      const auto at = static_cast<size_t>(k);
      if (context_.block.shape[k] != 1 && context_.block.stride[at] != dense[at]) return false;
    }
    return true;
  }

  // Applies a direction. If a result would not be finite, skips the update instead and returns false. iterate: see
  // AverageTracker.
  bool Write(const StepProgram& program, const Real* p, const DirectionScale& scale,
             const Real* iterate = nullptr) const {
    StepItem item = context_.item;
    item.program = &program;
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    if (!CanApply(item, p, scale, context_.memory.arena, &scope)) {
      SkipUpdate(item);
      return false;
    }
    scope.ForEach(PartCount(context_.block.elements), [&](int64_t i) {
      ApplyDirection(item, PartAt(context_.block.elements, i), p, scale, iterate, context_.memory.arena);
    });
    return true;
  }

  char* RadiusInArena() const { return context_.memory.arena + context_.block.radius.offset; }
  // Returns the norm that norm_control=hyperball maintains, or 0 if this norm is not known yet.
  double ReadRadius() const {
    double stored = 0;
    std::memcpy(&stored, RadiusInArena(), sizeof stored);
    return KnownRadius(*context_.program.settings, stored);
  }
  void StoreRadius(double radius) const { std::memcpy(RadiusInArena(), &radius, sizeof radius); }

  const BlockContext<Real>& context_;
};

}  // namespace shampoo
