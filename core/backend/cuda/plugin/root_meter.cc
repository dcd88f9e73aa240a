// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/root_meter.h"

#include <algorithm>
#include <limits>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/root_meter_kernels.h"
#include "core/backend/cuda/root_meter_layout.h"
#include "core/rules/eigenvalue.h"

namespace shampoo::cuda {
namespace {

MeasuredChunk Place(const RootChunk& chunk, void* workspace) {
  const RootMeterLayout layout = MakeRootMeterLayout(chunk.n, chunk.count);
  char* const base = static_cast<char*>(workspace);
  return {chunk, reinterpret_cast<double*>(base + layout.originals), reinterpret_cast<double*>(base + layout.roots),
          reinterpret_cast<RootStatus*>(base + layout.statuses), reinterpret_cast<double*>(base + layout.one)};
}

// Returns the spec with which the root is computed again in float64. The solver uses the epsilon of the measured root
// (RootBatch::compared), so relative_epsilon is 0.
RootSpec ExactSpecOf(const RootSpec& spec) {
  RootSpec exact = spec;
  exact.method = RootMethod::kEigen;
  exact.relative_epsilon = 0;
  exact.clamp = spec.method == RootMethod::kEigen;  // only root method eigen clamps (RootSpec::clamp)
  return exact;
}

// Returns the spec with which X^(1 / exponent) is computed from a root X of the chunk. If X were exact, this power
// would equal the matrix of which X is the root.
RootSpec PowerSpecOf(const RootChunk& chunk) {
  RootSpec power;
  power.exponent = 1 / chunk.spec.exponent;
  power.may_be_diagonal = true;
  power.clamp = false;
  power.pseudo_inverse = chunk.spec.pseudo_inverse;
  power.rank_rtol = power.pseudo_inverse ? ZeroEigenvalueTolerance(chunk.n, chunk.computation) : 0;
  return power;
}

}  // namespace

Status RootMeter::Create(const std::vector<Sizes>& sizes, const Handles& handles, std::unique_ptr<RootMeter>* out) {
  std::unique_ptr<RootMeter> made(new RootMeter);
  std::vector<RootSizes> exact;
  int64_t bytes = 0;
  for (const Sizes& kind : sizes) {
    exact.push_back({RootMethod::kEigen, kind.n, kind.count, Dtype::kF64});
    bytes = std::max(bytes, MakeRootMeterLayout(kind.n, kind.count).solver);
  }
  SHAMPOO_RETURN_IF_ERROR(RootSolver::Create(exact, handles, &made->solver_));
  made->workspace_bytes_ = bytes + made->solver_->WorkspaceBytes();
  *out = std::move(made);
  return Status();
}

Status RootMeter::Begin(const RootChunk& chunk, const Handles& handles, void* workspace) {
  SHAMPOO_CUDA_TRY(CopyMatrices(handles.stream, Place(chunk, workspace)));
  return Status();
}

Status RootMeter::Measure(const RootChunk& chunk, const Handles& handles, void* workspace) {
  const MeasuredChunk measured = Place(chunk, workspace);
  void* const of_solver = static_cast<char*>(workspace) + MakeRootMeterLayout(chunk.n, chunk.count).solver;
  RootBatch batch;
  batch.n = chunk.n;
  batch.count = chunk.count;
  batch.stride = chunk.n * chunk.n;
  batch.computation = Dtype::kF64;
  batch.root_dtype = Dtype::kF64;
  batch.limit = std::numeric_limits<double>::infinity();
  batch.matrices = measured.roots;
  batch.divisor = chunk.divisor;
  batch.active = chunk.active;
  batch.status = measured.statuses;
  batch.compared = chunk.status;
  SHAMPOO_RETURN_IF_ERROR(solver_->Compute(batch, ExactSpecOf(chunk.spec), handles, of_solver));
  SHAMPOO_CUDA_TRY(RecordErrors(handles.stream, measured));
  if (chunk.spec.exponent == 0) return Status();
  batch.limit = std::numeric_limits<double>::max();
  batch.divisor = measured.one;
  // No epsilon is used for X^(1 / exponent).
  batch.compared = nullptr;
  SHAMPOO_RETURN_IF_ERROR(solver_->Compute(batch, PowerSpecOf(chunk), handles, of_solver));
  SHAMPOO_CUDA_TRY(RecordResiduals(handles.stream, measured));
  return Status();
}

}  // namespace shampoo::cuda
