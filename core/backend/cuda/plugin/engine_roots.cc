// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The functions of Engine that compute inverse roots: within a step or, if root_async is above 0, while later steps
// run.
#include <algorithm>
#include <set>
#include <tuple>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/engine.h"
#include "core/backend/cuda/root_workspace.h"
#include "core/rules/growth.h"

namespace shampoo::cuda {

// Consecutive blocks of one shape group. All of them have the same task. For each dim, their roots are computed
// together.
struct Engine::RootRun {
  const ShapeGroup* shape_group;
  int64_t begin, count;
};

// The solver, the memory and the inputs with which the roots of a batch are computed.
struct Engine::RootContext {
  RootSolver* solver;
  const Handles* handles;
  char* workspace;
  void* matrices;
  const int32_t* const* flag_addresses;  // by root
  const int32_t* active;
  RootStatus* statuses;              // by root
  const double* divisors = nullptr;  // by block; nullptr: use BlockWork::divisor
};

// The settings and tasks of the step that refreshes the roots or, for async roots, of the step that took the snapshots.
struct Engine::RootInputs {
  const DeviceSettings* groups;
  const RootTask* tasks;          // by block
  const int64_t* block_counters;  // by block; only used for blocks with the task kFromSnapshot

  RootTask TaskOf(const Block* blocks, const BatchItem& item) const { return tasks[item.block - blocks]; }
};

Status Engine::AwaitAsyncRoots(const RootTask* tasks) {
  if (!async_roots_) return {};
  for (int64_t b = 0; b < plan_.block_count; ++b) {
    if (AwaitsRoots(tasks, b)) async_roots_->AwaitJob(b);
  }
  return async_roots_->TakeError();
}

// Makes the work of a step wait for async roots: those that the step begins to use, and those whose copied factor
// matrices the step overwrites. Call this before enqueuing the kernels of the step.
Status Engine::WaitForAsyncRoots(const StepArgs& args) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  for (int64_t b = 0; b < plan_.block_count; ++b) {
    if (!AwaitsRoots(args.tasks, b)) continue;
    SHAMPOO_RETURN_IF_ERROR(async_roots_ ? async_roots_->WaitForRoots(b, stream)
                                         : host_root_transfer_->WaitForRoots(b, stream));
  }
  return {};
}

// Enqueues the computation of the async roots of a job (AsyncRoots::Job). UpdateFactors() has copied their factor
// matrices in the step that submitted the job. This function runs on the thread of AsyncRoots, and therefore reads only
// members that steps do not change.
Status Engine::EnqueueAsyncRoots(const AsyncRoots& async, const AsyncRoots::Job& job) {
  char* const base = workspace_.data();
  RootContext context{.solver = async.solver(),
                      .handles = &async.handles(),
                      .workspace = base + layout_.async.root_workspace,
                      .matrices = nullptr,
                      .flag_addresses = reinterpret_cast<const int32_t* const*>(base + layout_.async.flag_addresses),
                      .active = reinterpret_cast<const int32_t*>(base + layout_.async.active),
                      .statuses = tables_.async_roots,
                      .divisors = tables_.async_divisors};
  const RootInputs inputs{job.groups.data(), job.tasks.data(), nullptr};
  const cudaStream_t stream = async.handles().stream;
  if (timer_) SHAMPOO_RETURN_IF_ERROR(timer_->BeginRun(stream));
  for (size_t i = 0; i < layout_.batches.size(); ++i) {
    context.matrices = batch_tables_[i].async_matrices;
    SHAMPOO_RETURN_IF_ERROR(ComputeRuns(inputs, RootTask::kTakeSnapshot, layout_.batches[i], context));
  }
  return timer_ ? timer_->EndRun(stream) : Status();
}

Status Engine::StartHostRoots(const HostRootStart& start, int64_t* job) {
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  Status started = host_root_transfer_->Start(start, job);
  lost_work_ = lost_work_ || !started.ok();
  return started;
}

auto Engine::ContextOf(const Tables& tables) const -> RootContext {
  char* const base = workspace_.data();
  return {.solver = roots_.get(),
          .handles = &HandlesOf(0),
          .workspace = base + layout_.root_workspace,
          .matrices = base + layout_.matrices,
          .flag_addresses = reinterpret_cast<const int32_t* const*>(base + layout_.flags),
          .active = &tables.state->go,
          .statuses = tables.roots};
}

Status Engine::RefreshRoots(const StepArgs& args, const Tables& tables, const BlockBatch& batch) {
  const RootContext context = ContextOf(tables);
  const RootInputs inputs{args.groups, args.tasks, args.block_counters};
  SHAMPOO_RETURN_IF_ERROR(ComputeRuns(inputs, RootTask::kCompute, batch, context));
  return ComputeRuns(inputs, RootTask::kFromSnapshot, batch, context);
}

// Computes the roots of all blocks of a batch that have the task `task`. The roots of consecutive blocks of a shape
// group are computed together (RootRun). Blocks with the same task are usually consecutive, because the blocks of a
// shape group are sorted by Block::phase. The matrices of a run share one divisor, so all snapshots in a run must be
// from the same step.
Status Engine::ComputeRuns(const RootInputs& inputs, RootTask task, const BlockBatch& batch,
                           const RootContext& context) {
  for (const ShapeGroup& shape_group : batch.shape_groups) {
    const auto item_at = [&](size_t i) -> const BatchItem& { return batch.items[shape_group.first + i]; };
    const auto step_of = [&](size_t i) {
      return task == RootTask::kFromSnapshot ? inputs.block_counters[item_at(i).block - plan_.blocks] : 0;
    };
    for (size_t i = 0; i < shape_group.count;) {
      if (inputs.TaskOf(plan_.blocks, item_at(i)) != task) {
        ++i;
        continue;
      }
      size_t end = i + 1;
      while (end < shape_group.count && inputs.TaskOf(plan_.blocks, item_at(end)) == task && step_of(end) == step_of(i))
        ++end;
      const RootRun run{&shape_group, static_cast<int64_t>(i), static_cast<int64_t>(end - i)};
      for (int k = 0; k < item_at(i).block->factor_count(); ++k) {
        if (!item_at(i).block->has_factor(k)) continue;
        SHAMPOO_RETURN_IF_ERROR(ComputeRun(inputs.groups, batch, run, k, context));
      }
      i = end;
    }
  }
  return {};
}

// For PreloadLibraries(): computes the roots of one chunk (RootsPerChunk) of matrices for each combination of method,
// size and dtype. The matrices are not finite, so the solver works on identity matrices instead. StepState::go is 0, so
// no root or status is written.
Status Engine::PreloadRoots() {
  std::vector<DeviceSettings> groups = planned_;
  // The second and all later iterations use the same kernels, so two iterations suffice.
  for (DeviceSettings& group : groups) group.root_max_iterations = std::min<int64_t>(group.root_max_iterations, 2);
  std::set<std::tuple<RootMethod, int64_t, Dtype, int64_t, bool>> computed;
  for (const BlockBatch& batch : layout_.batches) {
    if (batch.in_basis) continue;  // see BasisBatchStep::Preload
    for (const ShapeGroup& shape_group : batch.shape_groups) {
      const Block& block = *batch.items[shape_group.first].block;
      const DeviceSettings& group = groups[static_cast<size_t>(block.group)];
      const bool tracked = group.track_root_residuals;
      for (int k = 0; k < block.factor_count(); ++k) {
        if (!block.has_factor(k)) continue;
        const int64_t n = block.shape[k];
        const RootMethod method = MethodOfRoot(group, block.root, 1, n);
        const int64_t count = RootsPerChunk(method, n, static_cast<int64_t>(shape_group.count), block.root_dtype);
        if (!computed.emplace(method, n, block.root_dtype, count, tracked).second) continue;
        SHAMPOO_RETURN_IF_ERROR(ComputeRun(groups.data(), batch, {&shape_group, 0, count}, k, ContextOf(tables_)));
        if (method != RootMethod::kEigen && method != RootMethod::kCans) continue;
        // If a root fails, RetryRoot() computes this root alone. Load the kernels of these retries, too.
        RootBatch one = MatrixOf(n, batch.computation, block.root_dtype);
        one.limit = RootLimit(block, static_cast<size_t>(k));
        one.root = block.root;
        for (const RetryMethod how : {RetryMethod::kSingle, RetryMethod::kNewton}) {
          RootStatus unused;
          SHAMPOO_RETURN_IF_ERROR(
              roots_->Retry(one, 1, how, group, HandlesOf(0), workspace_.data() + layout_.root_workspace, &unused));
        }
      }
    }
  }
  return {};
}

// Computes the inverse roots of dim k of the blocks in a run.
Status Engine::ComputeRun(const DeviceSettings* groups, const BlockBatch& batch, const RootRun& run, int k,
                          const RootContext& context) {
  const BatchItem& item = batch.items[run.shape_group->first + static_cast<size_t>(run.begin)];
  const Block& block = *item.block;
  const auto element = static_cast<int64_t>(SizeOf(batch.computation));
  const auto blocks_in_group = static_cast<int64_t>(run.shape_group->count);
  const auto at = static_cast<size_t>(k);
  const int64_t root = run.shape_group->first_root + k * blocks_in_group + run.begin;
  RootBatch roots;
  roots.n = block.shape[k];
  roots.count = run.count;
  roots.stride = run.shape_group->matrix_stride[at];
  roots.computation = batch.computation;
  roots.root_dtype = block.root_dtype;
  roots.limit = RootLimit(block, at);
  roots.root = block.root;
  roots.matrices = static_cast<char*>(context.matrices) + item.matrix_at[at] * element;
  const int64_t b = &block - plan_.blocks;
  roots.divisor = context.divisors != nullptr ? context.divisors + b : &tables_.work[b].divisor;
  roots.may_be_diagonal = context.flag_addresses + root;
  roots.active = context.active;
  roots.status = context.statuses + root;
  return context.solver->Compute(roots, groups[block.group], *context.handles, context.workspace);
}

// Returns a batch of one matrix. The matrix is in the buffer at layout_.matrices. Steps use this buffer, too, so use
// the batch only between steps.
RootBatch Engine::MatrixOf(int64_t n, Dtype computation, Dtype root_dtype) {
  RootBatch matrix;
  matrix.n = n;
  matrix.count = 1;
  matrix.stride = n * n;
  matrix.computation = computation;
  matrix.root_dtype = root_dtype;
  matrix.matrices = workspace_.data() + layout_.matrices;
  return matrix;
}

Status Engine::RetryRoot(const RootRetry& retry, RootStatus* out) {
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  const auto stream = static_cast<cudaStream_t>(retry.stream);
  SHAMPOO_RETURN_IF_ERROR(handles_[0].Bind(stream));
  RootBatch matrix = MatrixOf(retry.n, retry.computation, retry.root_dtype);
  matrix.limit = retry.limit;
  matrix.root = retry.root;
  const size_t bytes = static_cast<size_t>(matrix.stride) * SizeOf(retry.computation);
  SHAMPOO_CUDA_TRY(cudaMemcpyAsync(matrix.matrices, retry.matrix, bytes, cudaMemcpyHostToDevice, stream));
  SHAMPOO_RETURN_IF_ERROR(roots_->Retry(matrix, retry.divisor, retry.how, *retry.settings, HandlesOf(0),
                                        workspace_.data() + layout_.root_workspace, out));
  if (out->failure != RootFailure::kNone) return {};
  SHAMPOO_CUDA_TRY(cudaMemcpyAsync(retry.matrix, matrix.matrices, bytes, cudaMemcpyDeviceToHost, stream));
  SHAMPOO_CUDA_TRY(cudaStreamSynchronize(stream));
  return {};
}

}  // namespace shampoo::cuda
