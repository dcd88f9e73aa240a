// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/backend/cuda/device_layout.h"
#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/basis_kernels.h"
#include "core/backend/cuda/plugin/basis_solver.h"
#include "core/backend/cuda/plugin/orthogonalizer.h"
#include "core/backend/cuda/plugin/phase_timer.h"
#include "core/backend/cuda/plugin/shape_group_streams.h"
#include "core/backend/cuda/plugin/tensor_products.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Enqueues the steps of batches of blocks (block_batches.h) whose method works in eigenbases: SOAP (arXiv 2409.11321),
// KL-SOAP or KL-Shampoo (arXiv 2509.03378). As in all steps, kernels and matrix products run in the order of the
// caller's stream. StepArgs::tasks specifies the blocks whose eigenbases a step refreshes.
class BasisBatchStep {
 public:
  struct Call {
    const StepArgs& args;
    int64_t ticket;  // the number of the step; stored as RootStatus::ticket of each eigenbasis that the step refreshes
    const StepPhases& phases;
  };

  // workspace: device memory with the layout `layout`. solver: computes eigenvectors. tf32: whether precondition_math
  // is tf32. All arguments except tf32 must outlive the object.
  BasisBatchStep(const PlanView& plan, const DeviceLayout& layout, char* workspace, const ShapeGroupStreams& streams,
                 const Orthogonalizer& orthogonalizer, RootSolver* solver, bool tf32);

  // Enqueues the step of one batch. work: the tables of the batch.
  Status Step(const Call& call, const Tables& tables, const BatchTables& work, const BlockBatch& batch) const;
  // Makes cuBLAS and cuSOLVER load the kernels of all products and eigendecompositions of the batch. StepState::go must
  // be 0, so that no kernel writes states.
  Status Preload(const Tables& tables, const BatchTables& work, const BlockBatch& batch) const;

 private:
  // The arguments of Step() or Preload() for one batch.
  struct Work {
    const Call* call;  // nullptr for Preload()
    cudaStream_t stream;
    BasisArgs args;
    const BlockBatch& batch;
    const DeviceSettings& settings;

    bool is_kl() const { return settings.factor_correction == FactorTerm::kKl; }
    Status Enter(StepPhase phase) const { return call != nullptr ? call->phases.Enter(phase) : Status(); }
  };
  // How Contract() contracts tensors with the matrices of several dims, one dim after another.
  struct Chain {
    void* from;                 // the tensors; not overwritten
    void* to;                   // receives the result of the last contraction
    void* other;                // a buffer for intermediate results
    void* matrices;             // the buffer of the matrices with which the tensors are contracted
    bool transposed = false;    // as in Contraction
    bool may_use_tf32 = false;  // whether products use TF32 if precondition_math is tf32
    int without = -1;           // a dim that is left out; -1: all dims that have a factor matrix are contracted
  };

  Work WorkOf(const Call* call, cudaStream_t stream, const Tables& tables, const BatchTables& work,
              const BlockBatch& batch) const;
  Status StepAfter(const Work& work) const;
  Status StepBefore(const Work& work) const;
  Status Rotate(const Work& work) const;
  Status RotateBack(const Work& work, void* from, void* to, void* other) const;
  Status CompleteDirection(const Work& work) const;
  Status Filter(const Work& work) const;
  Status InitializeBases(const Work& work) const;
  Status UpdateFactors(const Work& work) const;
  Status UpdateKlFactors(const Work& work) const;
  Status MultiplyGradients(const Work& work) const;
  Status Refresh(const Work& work, TaskSelection selection, void* spare) const;
  Status Transport(const Work& work, TaskSelection selection, RotatedState state, void* spare) const;
  Status Contract(const Work& work, const Handles& handles, const ShapeGroup& group, const BasisRun& run,
                  const Chain& chain) const;
  template <typename Do>
  Status ForEachRun(const Work& work, TaskSelection selection, const Do& do_run) const;
  template <typename Do>
  Status ForEachFactor(const Work& work, TaskSelection selection, const Do& do_factor) const;
  bool HasTask(const Work& work, RootTask task) const;
  RootTask TaskOf(const Work& work, const BatchItem& item) const;
  bool UpdatesAnyFactors(const Work& work) const;
  bool OrthogonalizesAny(const Work& work) const;

  const PlanView& plan_;
  const DeviceLayout& layout_;
  char* const workspace_;
  const ShapeGroupStreams& streams_;
  const Orthogonalizer& orthogonalizer_;
  const BasisSolver solver_;
  const bool tf32_;
};

}  // namespace shampoo::cuda
