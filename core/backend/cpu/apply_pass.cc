// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/apply_pass.h"

#include <algorithm>
#include <cstring>

#include "core/backend/cpu/average_pass.h"
#include "core/backend/cpu/block_rounding.h"
#include "core/base/convert.h"

namespace shampoo {
namespace {

// Computes outputs of a block from the data that the owner of the block has sent, and writes the outputs. Uses the same
// arithmetic as the owner, so that all ranks write bit-identical values.
template <typename Real>
void ApplyReceivedAs(const StepItem& item, const void* exchange, const BlockView& view, int64_t block_first,
                     const Range& part) {
  const ParamDesc& desc = item.param->desc;
  const Buffers& buffers = *item.buffers;
  Operand<Real> received(exchange, item.block->exchange_dtype);
  StridedOperand<Real> parameter(buffers.param, desc.param_dtype, view);
  const BlockRounding rounding = BlockRounding::OfParam(item);
  StridedOutput<Real> out(buffers.out, desc.out_dtype, view, &rounding, block_first);
  StridedOutput<Real> copy(buffers.copy, desc.copy_dtype, view);
  const bool updates = item.program->output == Output::kUpdates;
  Real values[kChunkElements];
  ForEachViewChunk(parameter.run(), part, [&](int64_t at, int64_t n) {
    const Real* const sent = received.Read(at, n);
    const Real* value = sent;
    if (!item.exchange_params) {
      const Real* const w = parameter.Read(at, n);
      for (int64_t i = 0; i < n; ++i) values[i] = w[i] + sent[i];
      value = values;
    }
    const auto write = [&](StridedOutput<Real>* to, const Real* from) {
      Real* const written = to->OpenNew(at, n);
      std::copy(from, from + n, written);
      to->Close(written, at, n);
    };
    write(&out, updates ? sent : value);
    if (buffers.copy != nullptr) write(&copy, value);
  });
}

}  // namespace

template <typename Real>
void ApplyDirection(const StepItem& item, const Range& part, const Real* p, const DirectionScale& scale,
                    const Real* iterate, char* arena) {
  const StepProgram& program = *item.program;
  const ParamDesc& desc = item.param->desc;
  const Block& block = *item.block;
  const Buffers& buffers = *item.buffers;
  const KernelsOf<Real>& kernels = BestKernels().Of<Real>();
  const BlockView view = BlockView::Of(block);
  StridedOperand<Real> parameter(buffers.param, desc.param_dtype, view);
  const BlockRounding out_rounding = BlockRounding::OfParam(item);
  const BlockRounding momentum_rounding = BlockRounding::OfState(item, RoundedState::kMomentum);
  StridedOutput<Real> out(buffers.out, desc.out_dtype, view, &out_rounding);
  StridedOutput<Real> copy(buffers.copy, desc.copy_dtype, view);
  MutableOperand<Real> momentum(arena + block.momentum.offset, block.momentum.dtype, &momentum_rounding);
  MutableOperand<Real> exchange(item.exchange, block.exchange_dtype);
  const bool has_momentum = HasMomentum(item);
  const bool exchanged = item.exchange != nullptr;
  const bool updates = exchanged ? !item.exchange_params : program.output == Output::kUpdates;
  const ApplyScalars<Real> scalars = MakeApplyScalars<Real>(program, scale.down, scale.up);
  AverageTracker<Real> average(item, iterate, arena);
  const bool tracks = average.is_needed();
  Real unwanted[kChunkElements];
  Real old[kChunkElements];

  ForEachViewChunk(parameter.run(), part, [&](int64_t at, int64_t n) {
    const Real* const w = parameter.Read(at, n);
    Real* const m = has_momentum ? momentum.Open(at, n) : nullptr;
    Real* const written = exchanged ? exchange.OpenNew(at) : out.OpenNew(at, n);
    if (tracks) std::copy(w, w + n, old);
    // This call may overwrite W, because `out` may be the memory of W. W is not read afterwards.
    kernels.apply(scalars, p + at, w, m, updates ? written : unwanted, updates ? unwanted : written, n);
    if (has_momentum) momentum.Close(at, n);
    if (tracks) average.Track(at, n, old, updates ? written : unwanted, updates ? unwanted : written);
    if (exchanged) return exchange.Close(at, n);
    out.Close(written, at, n);
    if (buffers.copy == nullptr) return;
    const Real* const value = updates ? unwanted : written;
    Real* const copied = copy.OpenNew(at, n);
    std::copy(value, value + n, copied);
    copy.Close(copied, at, n);
  });
}

namespace {

template <typename Real>
void AgeAverageAs(const StepItem& item, const Range& part, char* arena) {
  const StateSlot& slot = item.block->ema_offset;
  const BlockRounding rounding = BlockRounding::OfState(item, RoundedState::kWeightEma);
  MutableOperand<Real> offset(arena + slot.offset, slot.dtype, &rounding);
  const auto decay = static_cast<Real>(item.program->settings->weight_ema);
  ForEachChunk(part, [&](int64_t at, int64_t n) {
    Real* const elements = offset.Open(at, n);
    for (int64_t i = 0; i < n; ++i) elements[i] *= decay;
    offset.Close(at, n);
  });
}

template <typename Real>
void ExportAverageAs(const StepItem& item, const Range& part, char* arena) {
  const StateSlot& slot = item.block->average_offset();
  const ParamDesc& desc = item.param->desc;
  const BlockView view = BlockView::Of(*item.block);
  Operand<Real> offset(arena + slot.offset, slot.dtype);
  StridedOperand<Real> parameter(item.buffers->param, desc.param_dtype, view);
  StridedOutput<Real> out(item.buffers->out, desc.out_dtype, view);
  MutableOperand<Real> exchange(item.exchange, item.block->exchange_dtype);
  const auto factor = static_cast<Real>(-item.program->lr);
  ForEachViewChunk(parameter.run(), part, [&](int64_t at, int64_t n) {
    const Real* const difference = offset.Read(at, n);
    const bool is_sent = item.exchange != nullptr;
    Real* const to = is_sent ? exchange.OpenNew(at) : out.OpenNew(at, n);
    for (int64_t i = 0; i < n; ++i) to[i] = factor * difference[i];
    if (is_sent) return exchange.Close(at, n);
    const Real* const w = parameter.Read(at, n);
    for (int64_t i = 0; i < n; ++i) to[i] = w[i] + to[i];
    out.Close(to, at, n);
  });
}

}  // namespace

void AgeAverage(const StepItem& item, const Range& part, char* arena) {
  const bool is_f64 = item.block->computation == Dtype::kF64;
  return is_f64 ? AgeAverageAs<double>(item, part, arena) : AgeAverageAs<float>(item, part, arena);
}

void ExportAverage(const StepItem& item, const Range& part, char* arena) {
  const bool is_f64 = item.block->computation == Dtype::kF64;
  return is_f64 ? ExportAverageAs<double>(item, part, arena) : ExportAverageAs<float>(item, part, arena);
}

void SkipUpdate(const StepItem& item) {
  *item.update_skipped = 1;
  if (item.exchange == nullptr) return WriteUnchanged(*item.param, item.block, *item.buffers, item.program->output);
  MarkSkipped(item.exchange, SizeOf(item.block->exchange_dtype));
}

void MarkSkipped(void* exchange, size_t element_bytes) { std::memset(exchange, kSkippedMark, element_bytes); }

bool IsMarkedSkipped(const void* exchange, size_t element_bytes) {
  const auto* const bytes = static_cast<const unsigned char*>(exchange);
  return std::all_of(bytes, bytes + element_bytes, [](unsigned char byte) { return byte == kSkippedMark; });
}

bool OwnerSkippedUpdate(const StepItem& item) {
  return IsMarkedSkipped(item.exchange, SizeOf(item.block->exchange_dtype));
}

void ApplyReceived(const StepItem& item, const Range& part) {
  ApplyReceived(item, item.exchange, BlockView::Of(*item.block), 0, part);
}

void ApplyReceived(const StepItem& item, const void* received, const BlockView& view, int64_t block_first,
                   const Range& part) {
  if (item.block->computation == Dtype::kF64) {
    ApplyReceivedAs<double>(item, received, view, block_first, part);
  } else {
    ApplyReceivedAs<float>(item, received, view, block_first, part);
  }
}

template <typename Real>
void LoadGradient(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers,
                  const Range& part, Real* g) {
  const KernelsOf<Real>& kernels = BestKernels().Of<Real>();
  const BlockView view = BlockView::Of(block);
  StridedOperand<Real> gradient(buffers.grad, param.desc.grad_dtype, view);
  StridedOperand<double> wide_gradient(buffers.grad, param.desc.grad_dtype, view);
  StridedOperand<Real> parameter(buffers.param, param.desc.param_dtype, view);
  const Real scale = static_cast<Real>(program.gradient_scale);
  const Real decay = static_cast<Real>(program.coupled_decay);
  // A float64 gradient may be outside the range of float32 even if its scaled value is within that range. Such a
  // gradient is therefore scaled in float64.
  const bool wide = param.desc.grad_dtype == Dtype::kF64 && DtypeOf<Real>() != Dtype::kF64;
  ForEachViewChunk(gradient.run(), part, [&](int64_t at, int64_t n) {
    Real* const target = g + at;
    const Real* const w = decay != 0 ? parameter.Read(at, n) : nullptr;
    if (wide) {
      const double* const read = wide_gradient.Read(at, n);
      for (int64_t i = 0; i < n; ++i) target[i] = static_cast<Real>(program.gradient_scale * read[i]);
      if (w != nullptr) kernels.load(Real{1}, target, decay, w, target, n);
    } else {
      kernels.load(scale, gradient.Read(at, n), decay, w, target, n);
    }
  });
}

void WriteUnchangedRun(const Param& param, const Buffers& buffers, Output output, int64_t begin, int64_t count) {
  const ParamDesc& desc = param.desc;
  const bool updates = output == Output::kUpdates;
  const bool write_out = buffers.out != nullptr && (updates || buffers.out != buffers.param);
  if (!write_out && buffers.copy == nullptr) return;
  // float64 represents every value of the four floating-point dtypes, so each value is rounded only once.
  Operand<double> parameter(buffers.param, desc.param_dtype);
  const double zeros[kChunkElements] = {};
  ForEachChunk({begin, begin + count}, [&](int64_t first, int64_t n) {
    const double* const value = parameter.Read(first, n);
    if (buffers.copy != nullptr) Narrow(value, ElementAt(buffers.copy, desc.copy_dtype, first), desc.copy_dtype, n);
    if (write_out) Narrow(updates ? zeros : value, ElementAt(buffers.out, desc.out_dtype, first), desc.out_dtype, n);
  });
}

void WriteUnchanged(const Param& param, const Block* block, const Buffers& buffers, Output output) {
  if (block == nullptr) return WriteUnchangedRun(param, buffers, output, 0, param.elements);
  ForEachRun(block->shape, block->stride, 0, block->elements, [&](int64_t from, int64_t, int64_t length) {
    WriteUnchangedRun(param, buffers, output, block->offset + from, length);
  });
}

template void ApplyDirection<float>(const StepItem&, const Range&, const float*, const DirectionScale&, const float*,
                                    char*);
template void ApplyDirection<double>(const StepItem&, const Range&, const double*, const DirectionScale&, const double*,
                                     char*);
template void LoadGradient<float>(const StepProgram&, const Param&, const Block&, const Buffers&, const Range&, float*);
template void LoadGradient<double>(const StepProgram&, const Param&, const Block&, const Buffers&, const Range&,
                                   double*);

}  // namespace shampoo
