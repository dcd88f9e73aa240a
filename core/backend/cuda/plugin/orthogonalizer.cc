// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The iteration is Newton-Schulz or, with orthogonalization=exact, has the coefficients of ExactEntryOf(). Each step
// multiplies a matrix X by a polynomial of its Gram matrix. X alternates between two buffers of tensors, and ends in
// the buffer `second`. The other buffer is `spare`. With dual_norm_scale, the other buffer is `third`, because method
// muon still needs the filtered gradient in `spare`:
//
//              spare, or third        second
//   iteration  X                      X
//   result                            direction
//
// If the dtype of the iteration is not the computation dtype, X alternates between the two tensors that `third`
// (bfloat16) or `wide` (float64) has for each tensor of the batch. At the end, X is converted to the computation dtype
// and written to `second`.
//
// Each shape group has two buffers of square matrices. One is for the Gram matrices A (the product of X and its
// transpose). The other is for the polynomials a I + b A + c A A, by which X is multiplied. The size of these matrices
// is the smaller dim of X.
#include "core/backend/cuda/plugin/orthogonalizer.h"

#include <algorithm>
#include <utility>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/rules/muon.h"

namespace shampoo::cuda {

NsCoefficients::Entry Orthogonalizer::Work::Entry(int64_t step) const {
  return settings.orthogonalization == Orthogonalization::kExact ? ExactEntryOf(step) : EntryOf(how.coefficients, step);
}

OrthogonalizeArgs Orthogonalizer::ArgsOf(const Call& call) const {
  return {call.tables,
          call.work,
          call.source,
          call.spare,
          workspace_ + layout_.orthogonal.third,
          workspace_ + layout_.orthogonal.wide,
          call.batch.computation};
}

auto Orthogonalizer::WorkOf(const OrthogonalizeArgs& args, const BlockBatch& batch, const ShapeGroup& shape_group) const
    -> Work {
  const Block& block = *batch.items[shape_group.first].block;
  const DeviceSettings& settings = plan_.groups[block.group];
  const Dtype dtype = IterationDtypeOf(block, settings);
  const int64_t rows = block.orthogonal_rows;
  const int64_t columns = block.orthogonal_columns();
  const auto count = static_cast<int64_t>(shape_group.count);
  char* const gram = workspace_ + layout_.orthogonal.grams + shape_group.gram_at;
  return {args,
          batch,
          shape_group,
          settings,
          plan_.newton_schulz[block.group],
          rows,
          columns,
          dtype,
          dtype == batch.computation ? shape_group.stride : 2 * shape_group.stride,
          {gram, shape_group.gram_stride, std::min(rows, columns), count},
          gram + count * shape_group.gram_stride * static_cast<int64_t>(SizeOf(dtype))};
}

Status Orthogonalizer::Preload(const Call& call) const {
  const OrthogonalizeArgs args = ArgsOf(call);
  return streams_.ForEach(streams_.first().stream, call.batch,
                          [&](const Handles& handles, const ShapeGroup& shape_group) -> Status {
                            const Block& block = *call.batch.items[shape_group.first].block;
                            if (!block.has_orthogonal_direction()) return {};
                            const Work work = WorkOf(args, call.batch, shape_group);
                            const int64_t entries = std::max(work.how.coefficients.count, 1);
                            return Iterate(handles, work, std::min(work.how.steps, entries));
                          });
}

Status Orthogonalizer::Iterate(const Handles& handles, const Work& work, int64_t steps) const {
  const BatchItem& item = work.batch.items[work.shape_group.first];
  const OrthogonalizeArgs& args = work.args;
  const bool converts = work.dtype != args.computation;
  const auto element = static_cast<int64_t>(SizeOf(work.dtype));
  const auto in = [&](void* buffer) { return static_cast<char*>(buffer) + (converts ? 2 : 1) * item.at * element; };
  const int64_t elements = work.rows * work.columns;
  void* x = nullptr;
  void* next = nullptr;
  if (converts) {
    x = in(work.dtype == Dtype::kBf16 ? args.third : args.wide);
    next = static_cast<char*>(x) + work.shape_group.stride * element;
  } else {
    x = in(work.settings.dual_norm_scale ? args.third : args.spare);
    next = in(args.batch.second);
    if (work.how.steps % 2 == 0) std::swap(x, next);
  }
  if (work.how.norm == NsNorm::kSchatten4) {
    SHAMPOO_RETURN_IF_ERROR(MultiplyGram(handles, work, x));
    SHAMPOO_CUDA_TRY(CompleteSchatten(handles.stream, args, work.dtype, static_cast<int64_t>(work.shape_group.first),
                                      work.gram, {x, work.stride, elements}));
  }
  for (int64_t step = 0; step < steps; ++step) {
    SHAMPOO_RETURN_IF_ERROR(MultiplyGram(handles, work, x));
    SHAMPOO_RETURN_IF_ERROR(MultiplyPolynomial(handles, work, work.Entry(step), x, next));
    std::swap(x, next);
  }
  if (converts) {
    SHAMPOO_CUDA_TRY(ConvertTensors(handles.stream, work.dtype, {x, work.stride, elements}, work.gram.count,
                                    static_cast<float*>(args.batch.second) + item.at, work.shape_group.stride));
  }
  return {};
}

// Computes A <- X X^T or, if X has more rows than columns, A <- X^T X.
Status Orthogonalizer::MultiplyGram(const Handles& handles, const Work& work, const void* x) const {
  const EqualMatrices& gram = work.gram;
  GemmOptions options = OptionsOf(work);
  options.transpose_a = !work.is_wide();
  SHAMPOO_RETURN_IF_ERROR(LowerProductWithTransposed(handles.blas, options, gram.size, work.larger(),
                                                     {x, work.columns, work.stride},
                                                     {gram.data, gram.size, gram.stride}, gram.count));
  if (gram.size >= kLowerProductPanelsFrom) SHAMPOO_CUDA_TRY(MirrorMatrices(handles.stream, work.dtype, gram));
  return {};
}

// Computes next <- (a I + b A + c A A) X or, if X has more rows than columns, next <- X (a I + b A + c A A).
Status Orthogonalizer::MultiplyPolynomial(const Handles& handles, const Work& work, const NsCoefficients::Entry& entry,
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
