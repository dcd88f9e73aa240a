// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/device_layout.h"
#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/gemm.h"
#include "core/backend/cuda/plugin/muon_kernels.h"
#include "core/backend/cuda/plugin/phase_timer.h"
#include "core/backend/cuda/plugin/shape_group_streams.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// The step of batches that method muon orthogonalizes (arXiv 2502.16982). In each step of the Newton-Schulz iteration,
// the same batched products process all matrices of a shape group.
class MuonStep {
 public:
  // workspace: device memory of this layout. All arguments must outlive the object.
  MuonStep(const PlanView& plan, const DeviceLayout& layout, char* workspace, const ShapeGroupStreams& streams,
           bool tf32)
      : plan_(plan), layout_(layout), workspace_(workspace), streams_(streams), tf32_(tf32) {}

  Status Step(const StepArgs& args, const StepPhases& phases, const Tables& tables, const BatchTables& work,
              const BlockBatch& batch) const;
  // Makes cuBLAS load the kernels of all products of the batch. The state's `go` must be 0.
  Status Preload(const Tables& tables, const BatchTables& work, const BlockBatch& batch) const;

 private:
  // The matrices of a shape group in the buffers.
  struct Work {
    const MuonArgs& args;
    const BlockBatch& batch;
    const ShapeGroup& shape_group;
    const NewtonSchulz& how;
    int64_t rows, columns;
    Dtype dtype;     // of the iteration
    int64_t stride;  // between tensors, in elements of this dtype
    EqualMatrices gram;
    void* polynomial;
    bool is_narrow() const { return dtype == Dtype::kBf16; }
    bool is_wide() const { return rows <= columns; }
    int64_t larger() const { return is_wide() ? columns : rows; }
  };

  MuonArgs ArgsOf(const Tables& tables, const BatchTables& work, const BlockBatch& batch) const;
  Work WorkOf(const MuonArgs& args, const BlockBatch& batch, const ShapeGroup& shape_group) const;
  GemmOptions OptionsOf(const Work& work) const { return {.dtype = work.dtype, .tf32 = tf32_ && !work.is_narrow()}; }
  // Takes `steps` steps of the iteration.
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
