// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The buffers of tensors during the step of a batch. X is the matrix of the iteration. It alternates between `first`
// and `second`, and ends in `second`. With dual_norm_scale, the filtered gradient H stays in `first`, and X alternates
// between `third` and `second`:
//
//              first                second            third
//   filter     gradient, then H
//   iteration  X, or H              X                 X if H is in `first`
//   moments                         direction
//
// With muon_math bf16, X alternates between the halves of the tensors in `third`, and is converted to `second` at the
// end.
//
// Each shape group has two buffers of matrices: A, the product of X and its transpose, and the polynomial
// a I + b A + c A A, by which X is multiplied. The size of both matrices is the smaller dim of X.
#include "core/backend/cuda/plugin/muon_step.h"

#include <algorithm>
#include <utility>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/gemm.h"
#include "core/rules/muon.h"
#include "core/rules/schedule.h"

namespace shampoo::cuda {
namespace {

// Returns whether this step orthogonalizes the blocks of a group. The device makes the same decision with
// RuleWithoutRoots.
bool Orthogonalizes(const StepArgs& args, int group) {
  const int64_t t = args.expected_step[group];
  return t > 0 && t >= RefreshKeysOf(args.groups[group]).start;
}

bool HasMoment(const BatchItem& item) { return item.block->direction_moment.present(); }

// Returns the largest number of rows, or of groups of columns, of a block in the batch.
int64_t LinesOf(const BlockBatch& batch) {
  int64_t lines = 1;
  for (const BatchItem& item : batch.items) {
    const int64_t groups = (item.block->shape[1] + kColumnsOfLine - 1) / kColumnsOfLine;
    lines = std::max({lines, item.block->shape[0], groups});
  }
  return lines;
}

}  // namespace

MuonArgs MuonStep::ArgsOf(const Tables& tables, const BatchTables& work, const BlockBatch& batch) const {
  return {tables, work, workspace_ + layout_.muon.third, reinterpret_cast<double*>(workspace_ + layout_.muon.divisors),
          batch.computation};
}

auto MuonStep::WorkOf(const MuonArgs& args, const BlockBatch& batch, const ShapeGroup& shape_group) const -> Work {
  const BatchItem& item = batch.items[shape_group.first];
  const Block& block = *item.block;
  const auto element = static_cast<int64_t>(SizeOf(batch.computation));
  const Dtype dtype = plan_.groups[block.group].muon_math == MuonMath::kBf16 ? Dtype::kBf16 : batch.computation;
  const auto fraction = static_cast<int64_t>(SizeOf(batch.computation) / SizeOf(dtype));
  const auto at = [&](size_t i) { return static_cast<char*>(args.batch.matrices) + item.matrix_at[i] * element; };
  return {args,
          batch,
          shape_group,
          plan_.newton_schulz[block.group],
          block.shape[0],
          block.shape[1],
          dtype,
          fraction * shape_group.stride,
          {at(0), fraction * shape_group.matrix_stride[0], std::min(block.shape[0], block.shape[1]),
           static_cast<int64_t>(shape_group.count)},
          at(1)};
}

Status MuonStep::Step(const StepArgs& args, const StepPhases& phases, const Tables& tables, const BatchTables& work,
                      const BlockBatch& batch) const {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const MuonArgs muon = ArgsOf(tables, work, batch);
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
  SHAMPOO_CUDA_TRY(LoadGradients(stream, tables, work, batch.computation));
  SHAMPOO_CUDA_TRY(FilterGradients(stream, tables, work, batch.computation));
  const auto is_orthogonalized = [&](const BatchItem& item) { return Orthogonalizes(args, item.block->group); };
  if (std::any_of(batch.items.begin(), batch.items.end(), is_orthogonalized)) {
    SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kPreconditioning));
    SHAMPOO_CUDA_TRY(ScaleForIteration(stream, muon));
    SHAMPOO_RETURN_IF_ERROR(
        streams_.ForEach(stream, batch, [&](const Handles& handles, const ShapeGroup& shape_group) -> Status {
          if (!is_orthogonalized(batch.items[shape_group.first])) return {};
          const Work of_group = WorkOf(muon, batch, shape_group);
          return Iterate(handles, of_group, of_group.how.steps);
        }));
    if (std::any_of(batch.items.begin(), batch.items.end(), HasMoment)) {
      SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
      SHAMPOO_CUDA_TRY(DivideByMoments(stream, muon, LinesOf(batch)));
    }
  }
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
  SHAMPOO_CUDA_TRY(CheckDirections(stream, tables, work, batch.computation));
  SHAMPOO_CUDA_TRY(ApplyDirections(stream, tables, work, batch.computation));
  return {};
}

Status MuonStep::Preload(const Tables& tables, const BatchTables& work, const BlockBatch& batch) const {
  const MuonArgs muon = ArgsOf(tables, work, batch);
  return streams_.ForEach(streams_.first().stream, batch, [&](const Handles& handles, const ShapeGroup& shape_group) {
    const Work of_group = WorkOf(muon, batch, shape_group);
    return Iterate(handles, of_group, std::min<int64_t>(of_group.how.steps, of_group.how.coefficients.count));
  });
}

Status MuonStep::Iterate(const Handles& handles, const Work& work, int64_t steps) const {
  const BatchItem& item = work.batch.items[work.shape_group.first];
  const auto element = static_cast<int64_t>(SizeOf(work.batch.computation));
  const auto in = [&](void* buffer) { return static_cast<char*>(buffer) + item.at * element; };
  const int64_t elements = work.rows * work.columns;
  void* x = in(work.args.third);
  void* next = in(work.args.third) + work.shape_group.stride * static_cast<int64_t>(SizeOf(work.dtype));
  if (!work.is_narrow()) {
    const bool keeps_gradient = plan_.groups[item.block->group].dual_norm_scale;
    x = in(keeps_gradient ? work.args.third : work.args.batch.first);
    next = in(work.args.batch.second);
    if (work.how.steps % 2 == 0) std::swap(x, next);
  }
  if (work.how.norm == NsNorm::kSchatten4) {
    SHAMPOO_RETURN_IF_ERROR(MultiplyGram(handles, work, x));
    SHAMPOO_CUDA_TRY(CompleteSchatten(handles.stream, work.args, work.dtype,
                                      static_cast<int64_t>(work.shape_group.first), work.gram,
                                      {x, work.stride, elements}));
  }
  for (int64_t step = 0; step < steps; ++step) {
    SHAMPOO_RETURN_IF_ERROR(MultiplyGram(handles, work, x));
    SHAMPOO_RETURN_IF_ERROR(MultiplyPolynomial(handles, work, EntryOf(work.how.coefficients, step), x, next));
    std::swap(x, next);
  }
  if (work.is_narrow()) {
    SHAMPOO_CUDA_TRY(WidenTensors(handles.stream, {x, work.stride, elements}, work.gram.count,
                                  in(work.args.batch.second), work.shape_group.stride));
  }
  return {};
}

// A <- X X^T, or X^T X if X is tall.
Status MuonStep::MultiplyGram(const Handles& handles, const Work& work, const void* x) const {
  const EqualMatrices& gram = work.gram;
  GemmOptions options = OptionsOf(work);
  options.transpose_a = !work.is_wide();
  SHAMPOO_RETURN_IF_ERROR(LowerProductWithTransposed(handles.blas, options, gram.size, work.larger(),
                                                     {x, work.columns, work.stride},
                                                     {gram.data, gram.size, gram.stride}, gram.count));
  if (gram.size >= kLowerProductPanelsFrom) SHAMPOO_CUDA_TRY(MirrorMatrices(handles.stream, work.dtype, gram));
  return {};
}

// next <- (a I + b A + c A A) X, or X (a I + b A + c A A).
Status MuonStep::MultiplyPolynomial(const Handles& handles, const Work& work, const NsCoefficients::Entry& entry,
                                    const void* x, void* next) const {
  const EqualMatrices& gram = work.gram;
  const int64_t d = gram.size;
  if (entry.c != 0) {
    GemmOptions options = OptionsOf(work);
    options.alpha = entry.c;
    SHAMPOO_RETURN_IF_ERROR(LowerProductWithTransposed(handles.blas, options, d, d, {gram.data, d, gram.stride},
                                                       {work.polynomial, d, gram.stride}, gram.count));
  }
  SHAMPOO_CUDA_TRY(CompletePolynomials(handles.stream, work.dtype, gram, work.polynomial,
                                       {.a = entry.a, .b = entry.b, .has_square = entry.c != 0}));
  const GemmInput polynomial{work.polynomial, d, gram.stride};
  const GemmInput from{x, work.columns, work.stride};
  const GemmOutput to{next, work.columns, work.stride};
  return work.is_wide() ? Gemm(handles.blas, OptionsOf(work), d, work.columns, d, polynomial, from, to, gram.count)
                        : Gemm(handles.blas, OptionsOf(work), work.rows, d, d, from, polynomial, to, gram.count);
}

}  // namespace shampoo::cuda
