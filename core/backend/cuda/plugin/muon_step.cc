// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A batch has two buffers, each for one tensor per block (BatchTables). Their contents during each stage of a step:
//
//                    first                second
//   filter           gradient, then H
//   orthogonalizer   H, or overwritten    direction
//   moments          H, or overwritten    direction
//
// H is the filtered gradient. With dual_norm_scale, the orthogonalizer does not overwrite H (orthogonalizer.cc).
#include "core/backend/cuda/plugin/muon_step.h"

#include <algorithm>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_kernels.h"
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

// Returns the argument `lines` of DivideByMoments().
int64_t LinesOf(const BlockBatch& batch) {
  int64_t lines = 1;
  for (const BatchItem& item : batch.items) {
    const int64_t groups = (item.block->shape[1] + kColumnsOfLine - 1) / kColumnsOfLine;
    lines = std::max({lines, item.block->shape[0], groups});
  }
  return lines;
}

}  // namespace

Status MuonStep::Step(const StepArgs& args, const StepPhases& phases, const Tables& tables, const BatchTables& work,
                      const BlockBatch& batch) const {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
  SHAMPOO_CUDA_TRY(LoadGradients(stream, tables, work, batch.computation));
  SHAMPOO_CUDA_TRY(FilterGradients(stream, tables, work, batch.computation));
  const auto selects = [&](int group) { return Orthogonalizes(args, group); };
  if (std::any_of(batch.items.begin(), batch.items.end(),
                  [&](const BatchItem& item) { return selects(item.block->group); })) {
    SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kPreconditioning));
    SHAMPOO_RETURN_IF_ERROR(orthogonalizer_.Run(stream, {tables, work, batch, work.first, work.first}, selects));
    if (std::any_of(batch.items.begin(), batch.items.end(), HasMoment)) {
      SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
      SHAMPOO_CUDA_TRY(DivideByMoments(stream, {tables, work, divisors_, batch.computation}, LinesOf(batch)));
    }
  }
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
  SHAMPOO_CUDA_TRY(CheckDirections(stream, tables, work, batch.computation));
  SHAMPOO_CUDA_TRY(ApplyDirections(stream, tables, work, batch.computation));
  return {};
}

}  // namespace shampoo::cuda
