// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/device_layout.h"
#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/gemm.h"
#include "core/backend/cuda/plugin/orthogonalize_kernels.h"
#include "core/backend/cuda/plugin/shape_group_streams.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Orthogonalizes the directions of a batch by an iteration (orthogonalizer.cc), for method muon and for the key
// soap_post. Each product of the iteration is computed for all matrices of a shape group at once. With
// orthogonalization=exact, the iteration has kExactSteps steps (core/rules/muon.h) and runs in float64.
class Orthogonalizer {
 public:
  // Run() reads the directions from the buffer `source`, and writes the results to BatchTables::second. `work` has the
  // tables of `batch`.
  struct Call {
    const Tables& tables;
    const BatchTables& work;
    const BlockBatch& batch;
    void* source;
    void* spare;  // Run() may overwrite this buffer, unless dual_norm_scale is true; may be `source`
  };

  // workspace: device memory with the layout `layout`. All arguments except tf32 must outlive the object.
  Orthogonalizer(const PlanView& plan, const DeviceLayout& layout, char* workspace, const ShapeGroupStreams& streams,
                 bool tf32)
      : plan_(plan), layout_(layout), workspace_(workspace), streams_(streams), tf32_(tf32) {}

  // Orthogonalizes the direction of each block for which has_orthogonal_direction() and selects(block.group) are true.
  // If the rule of a block in this step is not DirectionRule::kPrecondition, the step must ignore the result for this
  // block in `second`.
  template <typename Selects>
  Status Run(cudaStream_t stream, const Call& call, const Selects& selects) const {
    const OrthogonalizeArgs args = ArgsOf(call);
    SHAMPOO_CUDA_TRY(ScaleForIteration(stream, args));
    return streams_.ForEach(stream, call.batch, [&](const Handles& handles, const ShapeGroup& shape_group) -> Status {
      const Block& block = *call.batch.items[shape_group.first].block;
      if (!block.has_orthogonal_direction() || !selects(block.group)) return {};
      const Work work = WorkOf(args, call.batch, shape_group);
      return Iterate(handles, work, work.how.steps);
    });
  }
  // Makes cuBLAS load the kernels of all products of the batch (Engine::PreloadLibraries). StepState::go must be 0.
  Status Preload(const Call& call) const;

 private:
  // A shape group, and where its matrices are stored. A direction is viewed as a rows x columns matrix.
  struct Work {
    const OrthogonalizeArgs& args;
    const BlockBatch& batch;
    const ShapeGroup& shape_group;
    const DeviceSettings& settings;
    const NewtonSchulz& how;
    int64_t rows, columns;
    Dtype dtype;     // of the iteration
    int64_t stride;  // elements of this dtype between the starts of consecutive tensors
    EqualMatrices gram;
    void* polynomial;  // the polynomials of the Gram matrices (orthogonalizer.cc)
    bool is_wide() const { return rows <= columns; }
    int64_t larger() const { return is_wide() ? columns : rows; }
    NsCoefficients::Entry Entry(int64_t step) const;
  };

  OrthogonalizeArgs ArgsOf(const Call& call) const;
  Work WorkOf(const OrthogonalizeArgs& args, const BlockBatch& batch, const ShapeGroup& shape_group) const;
  GemmOptions OptionsOf(const Work& work) const {
    return {.dtype = work.dtype, .tf32 = tf32_ && work.dtype == Dtype::kF32};
  }
  // Computes `steps` steps of the iteration for all matrices of the shape group.
  Status Iterate(const Handles& handles, const Work& work, int64_t steps) const;
  Status MultiplyGram(const Handles& handles, const Work& work, const void* x) const;
  Status MultiplyPolynomial(const Handles& handles, const Work& work, const NsCoefficients::Entry& entry, const void* x,
                            void* next) const;

  const PlanView& plan_;
  const DeviceLayout& layout_;
  char* const workspace_;
  const ShapeGroupStreams& streams_;
  const bool tf32_;
};

}  // namespace shampoo::cuda
