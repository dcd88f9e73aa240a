// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Steps and exports. A step enqueues kernels and matrix products in the order of the caller's stream. Products of
// blocks of different shapes run in parallel: the first cuBLAS handle uses the caller's stream, and the other handles
// use the engine's own streams. Events order the streams. In a step, the host does not allocate memory. The host waits
// only in the caller's collectives, for copies between the device and host memory that a collective uses
// (HostExchange), and in refreshes whose root method waits for results of the device (docs/adr/0027).
#include <algorithm>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/engine.h"
#include "core/backend/cuda/plugin/gemm.h"
#include "core/rules/averages.h"

namespace shampoo::cuda {
namespace {

// Returns whether this step preconditions a block. The device makes the same decision with DirectionRuleOf.
bool Preconditions(const StepArgs& args, const Block& block) {
  const int64_t t = args.expected_step[block.group];
  const int64_t first = FirstRefreshOf(RefreshKeysOf(args.groups[block.group]), block.phase);
  return block.is_preconditioned && t > 0 && t >= first;
}

}  // namespace

Status Engine::Step(const StepArgs& args, int64_t* ticket) {
  const bool exports = args.exports != 0;
  int64_t& last = exports ? export_tickets_ : tickets_;
  if (args.again == 0) last += exports ? -1 : 1;
  *ticket = last;
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  const auto stream = static_cast<cudaStream_t>(args.stream);
  Tables tables = tables_;
  tables.state_in = static_cast<const char*>(args.state_in);
  tables.state_out = static_cast<char*>(args.state_out);
  if (!handles_.empty()) SHAMPOO_RETURN_IF_ERROR(handles_[0].Bind(stream));
  Status status = exports ? EnqueueExport(args, *ticket, tables) : Enqueue(args, *ticket, tables);
  Status joined = exchanges_.Join(stream);
  if (status.ok()) status = std::move(joined);
  lost_work_ = lost_work_ || !status.ok();
  if (args.captured != 0) return status;
  // Record the work after a failure, too, because part of the step is already enqueued.
  Status recorded = RecordWork(stream);
  if (!status.ok()) return status;
  SHAMPOO_RETURN_IF_ERROR(std::move(recorded));
  if (exports) return {};
  recorded_ = *ticket;
  // The job that computes async roots starts after the whole step, so that no work of this step waits for the job.
  return async_roots_ ? async_roots_->Submit(args, plan_) : Status();
}

Status Engine::Export(const ExportArgs& args) {
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  const auto stream = static_cast<cudaStream_t>(args.stream);
  std::vector<ExportedParam> exported;
  for (int32_t p = 0; p < plan_.param_count; ++p) {
    const DeviceSettings& group = planned_[static_cast<size_t>(plan_.params[p].group)];
    exported.push_back({args.buffers[p].param, args.weights[p], ExportFactor(group, args.blend)});
  }
  const auto enqueue = [&]() -> Status {
    SHAMPOO_CUDA_TRY(
        ExportAverages(stream, tables_, static_cast<const char*>(args.state), exported.data(), plan_.param_count));
    return {};
  };
  Status status = enqueue();
  lost_work_ = lost_work_ || !status.ok();
  return status.ok() ? RecordWork(stream) : std::move(status);
}

Status Engine::Enqueue(const StepArgs& args, int64_t ticket, const Tables& tables) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const bool refreshes = args.any_refresh != 0;
  if (has_async_roots()) SHAMPOO_RETURN_IF_ERROR(WaitForAsyncRoots(args));
  // A replay of a graph sets Tables::buffers to the addresses in the captured step. So after a capture, every step sets
  // its own addresses again.
  was_captured_ = was_captured_ || args.captured != 0;
  if (args.buffers_changed != 0 || !buffers_are_set_ || was_captured_) {
    buffers_are_set_ = false;
    SHAMPOO_CUDA_TRY(SetBuffers(stream, tables, args.buffers, plan_.param_count));
    buffers_are_set_ = true;
  }
  // Replays of a captured step are not measured.
  const StepPhases phases(args.captured == 0 ? timer_.get() : nullptr, stream);
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kCheck));
  const bool has_tasks = (has_async_roots() || basis_step_) && args.any_task != 0;
  if (has_tasks) SHAMPOO_CUDA_TRY(SetTasks(stream, tables, args.tasks));
  SHAMPOO_CUDA_TRY(BeginStep(stream, tables, ticket, args));
  SHAMPOO_CUDA_TRY(BeginGroups(stream, tables, args.groups, args.expected_step, narrowest_.data(), args.any_task != 0));
  SHAMPOO_RETURN_IF_ERROR(exchanges_.Collect(args, tables, phases));
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kCheck));
  SHAMPOO_CUDA_TRY(ScanGradients(stream, tables));
  SHAMPOO_CUDA_TRY(CheckBlocks(stream, tables, args.any_task != 0, has_tasks));
  if (plan_.verify_replicas > 0) SHAMPOO_CUDA_TRY(HashParameters(stream, tables, plan_.param_count));
  SHAMPOO_RETURN_IF_ERROR(exchanges_.Agree(args, tables, phases));
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
  if (tables.state_in != tables.state_out) SHAMPOO_CUDA_TRY(CopyState(stream, tables, plan_.state_bytes));
  if (refreshes && layout_.root_count > 0) {
    auto* const flags = reinterpret_cast<const int32_t**>(workspace_.data() + layout_.flags);
    SHAMPOO_CUDA_TRY(FindFlags(stream, tables, flags));
  }
  size_t batch = 0;
  const auto step_bucket = [&](int32_t bucket) -> Status {
    for (; batch < batch_tables_.size() && layout_.batches[batch].bucket == bucket; ++batch) {
      SHAMPOO_RETURN_IF_ERROR(StepBatch(args, ticket, tables, phases, batch));
    }
    return {};
  };
  SHAMPOO_RETURN_IF_ERROR(exchanges_.ShareBuckets(args, tables, phases, step_bucket));
  if (advances_averages_) SHAMPOO_CUDA_TRY(AdvanceAverages(stream, tables));
  SHAMPOO_CUDA_TRY(EndStep(stream, tables, has_tasks || basis_step_, refreshes));
  return phases.End();
}

// Enqueues an export of several ranks. An export makes all exchanges of a step, so that failures are reported in the
// same way. No group makes a step and no parameter has a gradient, so this rank sends placeholders instead of
// gradients.
Status Engine::EnqueueExport(const StepArgs& args, int64_t ticket, const Tables& tables) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const StepPhases phases(nullptr, stream);  // an export belongs to no phase of a step
  buffers_are_set_ = false;                  // the next step sets its own buffers again
  SHAMPOO_CUDA_TRY(SetBuffers(stream, tables, args.buffers, plan_.param_count));
  SHAMPOO_CUDA_TRY(BeginStep(stream, tables, ticket, args));
  SHAMPOO_CUDA_TRY(BeginGroups(stream, tables, args.groups, args.expected_step, narrowest_.data(), false));
  SHAMPOO_RETURN_IF_ERROR(exchanges_.Collect(args, tables, phases));
  if (plan_.verify_replicas > 0) SHAMPOO_CUDA_TRY(HashParameters(stream, tables, plan_.param_count));
  SHAMPOO_RETURN_IF_ERROR(exchanges_.Agree(args, tables, phases));
  const auto export_bucket = [&](int32_t bucket) {
    return StatusOf(SendAverages(stream, tables, bucket, args.blend), "SendAverages");
  };
  SHAMPOO_RETURN_IF_ERROR(exchanges_.ShareBuckets(args, tables, phases, export_bucket));
  SHAMPOO_CUDA_TRY(EndStep(stream, tables, false, false));
  return {};
}

Status Engine::StepBatch(const StepArgs& args, int64_t ticket, const Tables& tables, const StepPhases& phases,
                         size_t index) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const BlockBatch& batch = layout_.batches[index];
  const BatchTables& work = batch_tables_[index];
  const Dtype computation = batch.computation;
  if (batch.in_basis) return basis_step_->Step({args, ticket, phases}, tables, work, batch);
  if (batch.is_orthogonalized) return muon_step_->Step(args, phases, tables, work, batch);
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
  SHAMPOO_CUDA_TRY(LoadGradients(stream, tables, work, computation));
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kFactorUpdate));
  SHAMPOO_RETURN_IF_ERROR(shampoo_products_->UpdateKlFactors(stream, tables, work, batch));
  SHAMPOO_RETURN_IF_ERROR(shampoo_products_->MultiplyGradients(stream, batch));
  SHAMPOO_CUDA_TRY(UpdateFactors(stream, tables, work, computation));
  const auto any = [&](const auto& is) {
    return std::any_of(batch.items.begin(), batch.items.end(),
                       [&](const auto& item) { return is(HostTaskOf(args, item)); });
  };
  if (any([](RootTask task) { return task == RootTask::kTakeSnapshot; })) {
    SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
    SHAMPOO_CUDA_TRY(RecordSnapshots(stream, tables, work));
  }
  if (any(Refreshes)) {
    SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kRoots));
    SHAMPOO_RETURN_IF_ERROR(RefreshRoots(args, tables, batch));
    SHAMPOO_CUDA_TRY(StoreRoots(stream, tables, work, computation, ticket));
  }
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
  SHAMPOO_CUDA_TRY(FilterGradients(stream, tables, work, computation));
  const auto is_preconditioned = [&](const BatchItem& item) { return Preconditions(args, *item.block); };
  if (std::any_of(batch.items.begin(), batch.items.end(), is_preconditioned)) {
    SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kPreconditioning));
    SHAMPOO_RETURN_IF_ERROR(
        streams_.ForEach(stream, batch, [&](const Handles& handles, const ShapeGroup& shape_group) -> Status {
          // The items of a shape group are sorted by Block::phase, so the preconditioned blocks come first.
          const auto first = batch.items.begin() + static_cast<std::ptrdiff_t>(shape_group.first);
          const auto end =
              std::find_if_not(first, first + static_cast<std::ptrdiff_t>(shape_group.count), is_preconditioned);
          return first == end ? Status() : shampoo_products_->Precondition(handles, batch, shape_group, end - first);
        }));
  }
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
  SHAMPOO_CUDA_TRY(CheckDirections(stream, tables, work, computation));
  SHAMPOO_CUDA_TRY(ApplyDirections(stream, tables, work, computation));
  return {};
}

}  // namespace shampoo::cuda
