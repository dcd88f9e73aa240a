// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The inverse roots of a step: computed in it, or beside the steps that follow.
#include <algorithm>

#include "core/backend/cuda/plugin/call.h"
#include "core/backend/cuda/plugin/engine.h"
#include "core/backend/cuda/plugin/kernels.h"

namespace shampoo::cuda {

// Blocks of a class with the same task.
struct Engine::RootRun {
  const ShapeClass* of_shape;
  int64_t begin, count;
};

// Where the matrices of a wave are, and what their roots are computed with.
struct Engine::RootPlace {
  RootSolver* solver;
  const Handles* handles;
  char* workspace;
  void* matrices;
  const int32_t* const* flag_addresses;  // by root
  const int32_t* active;
  RootStatus* statuses;              // by root
  const double* divisors = nullptr;  // by block; nullptr: those of its work
};

// Before the step's kernels: the roots of blocks that are copied over what was given before, or that take what came of
// it.
Status Engine::JoinAhead(const StepArgs& args) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  for (int64_t b = 0; b < plan_.block_count; ++b) {
    const RootTask task = plan_.owned[b] != 0 ? args.tasks[b] : RootTask::kNone;
    if (task != RootTask::kAdoptDeviceRoots && task != RootTask::kTakeSnapshot) continue;
    SHAMPOO_RETURN_IF_ERROR(ahead_->Join(b, stream));
  }
  return {};
}

// UpdateFactors has copied the factor matrices.
Status Engine::ComputeAhead(const StepArgs& args, int64_t ticket, const Tables& tables) {
  bool any = false;
  for (const Wave& wave : layout_.waves) {
    for (const WaveItem& item : wave.items) {
      if (HostTaskOf(args, item) != RootTask::kTakeSnapshot) continue;
      ahead_->Give(item.block - plan_.blocks, ticket);
      any = true;
    }
  }
  if (!any) return {};
  SHAMPOO_RETURN_IF_ERROR(ahead_->Follow(static_cast<cudaStream_t>(args.stream)));
  char* const base = workspace_.data();
  RootPlace place{.solver = ahead_->solver(),
                  .handles = &ahead_->handles(),
                  .workspace = base + layout_.ahead.root_workspace,
                  .matrices = nullptr,
                  .flag_addresses = reinterpret_cast<const int32_t* const*>(base + layout_.ahead.flag_addresses),
                  .active = reinterpret_cast<const int32_t*>(base + layout_.ahead.active),
                  .statuses = tables.ahead_roots,
                  .divisors = tables.ahead_divisors};
  Status status;
  for (size_t i = 0; i < layout_.waves.size() && status.ok(); ++i) {
    place.matrices = waves_[i].ahead;
    status = ComputeRuns(args, RootTask::kTakeSnapshot, layout_.waves[i], place);
  }
  // Even after a failure: something is under way then.
  Status ended = ahead_->EndGiving(ticket);
  return status.ok() ? std::move(ended) : std::move(status);
}

Status Engine::RefreshRoots(const StepArgs& args, const Tables& tables, const Wave& wave) {
  char* const base = workspace_.data();
  const RootPlace place{.solver = roots_.get(),
                        .handles = &HandlesOf(0),
                        .workspace = base + layout_.root_workspace,
                        .matrices = base + layout_.matrices,
                        .flag_addresses = reinterpret_cast<const int32_t* const*>(base + layout_.flags),
                        .active = &tables.state->go,
                        .statuses = tables.roots};
  SHAMPOO_RETURN_IF_ERROR(ComputeRuns(args, RootTask::kCompute, wave, place));
  return ComputeRuns(args, RootTask::kFromSnapshot, wave, place);
}

// Blocks with this task, those of a class that lie together at once, which items that are sorted by phase mostly do.
// The matrices of a run have one divisor, and so are of one step.
Status Engine::ComputeRuns(const StepArgs& args, RootTask task, const Wave& wave, const RootPlace& place) {
  for (const ShapeClass& of_shape : wave.classes) {
    const auto item_at = [&](size_t i) -> const WaveItem& { return wave.items[of_shape.first + i]; };
    const auto step_of = [&](size_t i) {
      return task == RootTask::kFromSnapshot ? args.snapshot_steps[item_at(i).block - plan_.blocks] : 0;
    };
    for (size_t i = 0; i < of_shape.count;) {
      if (HostTaskOf(args, item_at(i)) != task) {
        ++i;
        continue;
      }
      size_t end = i + 1;
      while (end < of_shape.count && HostTaskOf(args, item_at(end)) == task && step_of(end) == step_of(i)) ++end;
      const RootRun run{&of_shape, static_cast<int64_t>(i), static_cast<int64_t>(end - i)};
      SHAMPOO_RETURN_IF_ERROR(ComputeRun(args, wave, run, place));
      i = end;
    }
  }
  return {};
}

Status Engine::ComputeRun(const StepArgs& args, const Wave& wave, const RootRun& run, const RootPlace& place) {
  const WaveItem& item = wave.items[run.of_shape->first + static_cast<size_t>(run.begin)];
  const Block& block = *item.block;
  const auto element = static_cast<int64_t>(SizeOf(wave.computation));
  const auto class_count = static_cast<int64_t>(run.of_shape->count);
  for (int k = 0; k < block.factor_count(); ++k) {
    const auto at = static_cast<size_t>(k);
    const int64_t root = run.of_shape->first_root + k * class_count + run.begin;
    RootBatch batch;
    batch.n = block.shape[k];
    batch.count = run.count;
    batch.stride = run.of_shape->matrix_stride[at];
    batch.computation = wave.computation;
    batch.root_dtype = block.root_dtype;
    batch.limit = std::min(LargestFinite(block.inverse[at].dtype), LargestFinite(wave.computation));
    batch.root = block.root;
    batch.matrices = static_cast<char*>(place.matrices) + item.matrix_at[at] * element;
    const int64_t b = &block - plan_.blocks;
    batch.divisor = place.divisors != nullptr ? place.divisors + b : &tables_.work[b].divisor;
    batch.may_be_diagonal = place.flag_addresses + root;
    batch.active = place.active;
    batch.status = place.statuses + root;
    SHAMPOO_RETURN_IF_ERROR(place.solver->Compute(batch, args.groups[block.group], *place.handles, place.workspace));
  }
  return {};
}

}  // namespace shampoo::cuda
