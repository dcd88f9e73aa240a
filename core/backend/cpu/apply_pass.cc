// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/apply_pass.h"

#include <algorithm>
#include <cmath>

#include "core/backend/cpu/stretch.h"
#include "core/plan/runs.h"

namespace shampoo {
namespace {

template <typename Real>
void Decay(Real decay, const Real* w, Real* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] += decay * w[i];
}

template <typename Real>
void Momentum(Real momentum, bool nesterov, Real* m, Real* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i) m[i] = momentum * m[i] + p[i];
  if (nesterov) {
    for (int64_t i = 0; i < n; ++i) p[i] += momentum * m[i];
  } else {
    for (int64_t i = 0; i < n; ++i) p[i] = m[i];
  }
}

}  // namespace

template <typename Real>
void ApplyDirection(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers,
                    const Real* p, double scale_down, double scale_up, char* arena) {
  Operand<Real> parameter(buffers.param, param.desc.param_dtype);
  MutableOperand<Real> out(buffers.out, param.desc.out_dtype);
  MutableOperand<Real> copy(buffers.copy, param.desc.copy_dtype);
  MutableOperand<Real> momentum(arena + block.momentum.offset, block.momentum.dtype);
  const bool has_momentum = block.momentum.present() && program.momentum != 0;
  const bool scaled = scale_down != 1 || scale_up != 1;
  const Real down = static_cast<Real>(scale_down);
  const Real up = static_cast<Real>(scale_up);
  const Real lr = static_cast<Real>(program.lr);
  Real direction[kStretch];
  Real value[kStretch];

  ForEachRun(block.shape, block.stride, [&](int64_t from, int64_t dense, int64_t length) {
    ForEachStretch(length, [&](int64_t first, int64_t n) {
      const int64_t at = dense + first;                   // in the block
      const int64_t there = block.offset + from + first;  // in the caller's buffers
      const Real* const w = parameter.Read(there, n);
      if (scaled) {
        for (int64_t i = 0; i < n; ++i) direction[i] = p[at + i] * down * up;
      } else {
        for (int64_t i = 0; i < n; ++i) direction[i] = p[at + i];
      }
      if (program.decoupled_decay != 0) Decay(static_cast<Real>(program.decoupled_decay), w, direction, n);
      if (has_momentum) {
        Momentum(static_cast<Real>(program.momentum), program.nesterov, momentum.Open(at, n), direction, n);
        momentum.Close(at, n);
      }
      // W is read for the last time here; out may be the same memory.
      for (int64_t i = 0; i < n; ++i) {
        direction[i] *= -lr;
        value[i] = w[i] + direction[i];
      }
      const Real* const result = program.output == Output::kUpdates ? direction : value;
      Real* const target = out.OpenNew(there);
      for (int64_t i = 0; i < n; ++i) target[i] = result[i];
      out.Close(there, n);
      if (buffers.copy != nullptr) {
        Real* const copied = copy.OpenNew(there);
        for (int64_t i = 0; i < n; ++i) copied[i] = value[i];
        copy.Close(there, n);
      }
    });
  });
}

template <typename Real>
bool CanApply(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers, const Real* p,
              double scale_down, double scale_up, double size, const char* arena) {
  const double limit = LargestFinite(DtypeOf<Real>());
  if (!(size < limit && std::fabs(program.lr) * size < limit)) return false;
  const ParamDesc& desc = param.desc;
  const bool has_momentum = block.momentum.present() && program.momentum != 0;
  const double momentum_limit = has_momentum ? std::min(LargestFinite(block.momentum.dtype), limit) : limit;
  const double out_limit = LargestFinite(desc.out_dtype);
  const double copy_limit = buffers.copy != nullptr ? LargestFinite(desc.copy_dtype) : limit;
  const bool narrow = std::min({momentum_limit, out_limit, copy_limit}) < limit;
  // So far from the limit that neither momentum nor parameter can come near it.
  const bool small = std::max(size, std::fabs(program.lr) * size) < 1e-9 * limit;
  if (!narrow && small && LargestFinite(desc.param_dtype) <= limit) return true;

  // The same pass without its writes. A parameter that is infinite already stays so: that is not this step's doing.
  Operand<double> parameter(buffers.param, desc.param_dtype);
  Operand<double> momentum(arena + block.momentum.offset, block.momentum.dtype);
  const double down = static_cast<double>(static_cast<Real>(scale_down));
  const double up = static_cast<double>(static_cast<Real>(scale_up));
  bool fits = true;
  ForEachRun(block.shape, block.stride, [&](int64_t from, int64_t dense, int64_t length) {
    ForEachStretch(length, [&](int64_t first, int64_t n) {
      const double* const w = parameter.Read(block.offset + from + first, n);
      const double* const m = has_momentum ? momentum.Read(dense + first, n) : nullptr;
      for (int64_t i = 0; i < n; ++i) {
        double direction = static_cast<double>(p[dense + first + i]) * down * up + program.decoupled_decay * w[i];
        if (m != nullptr) {
          const double moved = program.momentum * m[i] + direction;
          fits = fits && std::fabs(moved) <= momentum_limit;
          direction = program.nesterov ? direction + program.momentum * moved : moved;
        }
        const double update = -program.lr * direction;
        const double value = w[i] + update;
        const double written = program.output == Output::kUpdates ? update : value;
        if (std::isfinite(w[i])) {
          fits = fits && std::fabs(written) <= out_limit && std::fabs(value) <= std::min(copy_limit, limit);
        }
      }
    });
  });
  return fits;
}

template <typename Real>
void LoadGradient(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers, Real* g) {
  Operand<Real> gradient(buffers.grad, param.desc.grad_dtype);
  Operand<double> wide_gradient(buffers.grad, param.desc.grad_dtype);
  Operand<Real> parameter(buffers.param, param.desc.param_dtype);
  const Real scale = static_cast<Real>(program.gradient_scale);
  const Real decay = static_cast<Real>(program.coupled_decay);
  // A float64 gradient may be beyond the range of float32 where its scaled value is not.
  const bool wide = param.desc.grad_dtype == Dtype::kF64 && DtypeOf<Real>() != Dtype::kF64;
  ForEachRun(block.shape, block.stride, [&](int64_t from, int64_t dense, int64_t length) {
    ForEachStretch(length, [&](int64_t first, int64_t n) {
      const int64_t there = block.offset + from + first;
      Real* const target = g + dense + first;
      if (wide) {
        const double* const read = wide_gradient.Read(there, n);
        for (int64_t i = 0; i < n; ++i) target[i] = static_cast<Real>(program.gradient_scale * read[i]);
      } else {
        const Real* const read = gradient.Read(there, n);
        for (int64_t i = 0; i < n; ++i) target[i] = scale * read[i];
      }
      if (decay != 0) Decay(decay, parameter.Read(there, n), target, n);
    });
  });
}

void WriteUnchanged(const Param& param, const Block* block, const Buffers& buffers, Output output) {
  const ParamDesc& desc = param.desc;
  const bool updates = output == Output::kUpdates;
  const bool write_out = buffers.out != nullptr && (updates || buffers.out != buffers.param);
  if (!write_out && buffers.copy == nullptr) return;
  // float64 holds every value of every dtype, so each is rounded once.
  Operand<double> parameter(buffers.param, desc.param_dtype);
  const double zeros[kStretch] = {};
  const auto write = [&](int64_t first, int64_t n) {
    const double* const value = parameter.Read(first, n);
    if (buffers.copy != nullptr) Narrow(value, ElementAt(buffers.copy, desc.copy_dtype, first), desc.copy_dtype, n);
    if (write_out) Narrow(updates ? zeros : value, ElementAt(buffers.out, desc.out_dtype, first), desc.out_dtype, n);
  };
  if (block == nullptr) {
    ForEachStretch(param.elements, write);
    return;
  }
  ForEachRun(block->shape, block->stride, [&](int64_t from, int64_t, int64_t length) {
    ForEachStretch(length, [&](int64_t first, int64_t n) { write(block->offset + from + first, n); });
  });
}

template void ApplyDirection<float>(const StepProgram&, const Param&, const Block&, const Buffers&, const float*,
                                    double, double, char*);
template void ApplyDirection<double>(const StepProgram&, const Param&, const Block&, const Buffers&, const double*,
                                     double, double, char*);
template bool CanApply<float>(const StepProgram&, const Param&, const Block&, const Buffers&, const float*, double,
                              double, double, const char*);
template bool CanApply<double>(const StepProgram&, const Param&, const Block&, const Buffers&, const double*, double,
                               double, double, const char*);
template void LoadGradient<float>(const StepProgram&, const Param&, const Block&, const Buffers&, float*);
template void LoadGradient<double>(const StepProgram&, const Param&, const Block&, const Buffers&, double*);

}  // namespace shampoo
