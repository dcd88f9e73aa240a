// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A step: kernels and products in the order of the caller's stream. Products of blocks of other shapes run side by side
// on streams of the engine, fenced by events. Nothing is waited for, read or allocated on the host.
#include <algorithm>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/engine.h"
#include "core/backend/cuda/plugin/gemm.h"

namespace shampoo::cuda {
namespace {

// Whether the step of the launches preconditions a block. The device decides the same by DirectionRuleOf.
bool Preconditions(const StepArgs& args, const Block& block) {
  const int64_t t = args.expected_step[block.group];
  const int64_t first = FirstRefreshOf(RefreshKeysOf(args.groups[block.group]), block.phase);
  return block.is_preconditioned && t > 0 && t >= first;
}

}  // namespace

Status Engine::Step(const StepArgs& args, int64_t* ticket) {
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  const auto stream = static_cast<cudaStream_t>(args.stream);
  *ticket = ++tickets_;
  Tables tables = tables_;
  tables.state_in = static_cast<const char*>(args.state_in);
  tables.state_out = static_cast<char*>(args.state_out);
  if (!handles_.empty()) SHAMPOO_RETURN_IF_ERROR(handles_[0].Bind(stream));
  Status status = Enqueue(args, *ticket, tables);
  if (args.captured != 0) return status;
  // Even after a failure: half a step is under way then.
  Status recorded = RecordWork(stream);
  if (!status.ok()) return status;
  SHAMPOO_RETURN_IF_ERROR(std::move(recorded));
  recorded_ = *ticket;
  return {};
}

Status Engine::Enqueue(const StepArgs& args, int64_t ticket, const Tables& tables) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const bool refreshes = args.any_refresh != 0;
  if (async_roots_) SHAMPOO_RETURN_IF_ERROR(WaitForAsyncRoots(args));
  // A graph sets its own again whenever it is replayed.
  was_captured_ = was_captured_ || args.captured != 0;
  if (args.buffers_changed != 0 || !buffers_are_set_ || was_captured_) {
    buffers_are_set_ = false;
    SHAMPOO_CUDA_TRY(SetBuffers(stream, tables, args.buffers, plan_.param_count));
    buffers_are_set_ = true;
  }
  const bool has_tasks = async_roots_ && args.any_task != 0;
  if (has_tasks) SHAMPOO_CUDA_TRY(SetTasks(stream, tables, args.tasks));
  SHAMPOO_CUDA_TRY(BeginStep(stream, tables, ticket, args.acknowledged_rejections, args.failure));
  SHAMPOO_CUDA_TRY(BeginGroups(stream, tables, args.groups, args.expected_step, narrowest_.data(), args.any_task != 0));
  SHAMPOO_CUDA_TRY(ScanGradients(stream, tables));
  SHAMPOO_CUDA_TRY(CheckBlocks(stream, tables, has_tasks));
  if (tables.state_in != tables.state_out) SHAMPOO_CUDA_TRY(CopyState(stream, tables, plan_.state_bytes));
  if (refreshes && layout_.root_count > 0) {
    auto* const flags = reinterpret_cast<const int32_t**>(workspace_.data() + layout_.flags);
    SHAMPOO_CUDA_TRY(FindFlags(stream, tables, flags));
  }
  const int32_t buckets = std::max<int32_t>(plan_.bucket_count, 1);
  size_t batch = 0;
  for (int32_t bucket = 0; bucket < buckets; ++bucket) {
    for (; batch < batch_tables_.size() && layout_.batches[batch].bucket == bucket; ++batch) {
      SHAMPOO_RETURN_IF_ERROR(StepBatch(args, ticket, tables, batch));
    }
    if (plan_.replica_world > 1) SHAMPOO_RETURN_IF_ERROR(ExchangeBucket(args, tables, bucket));
  }
  SHAMPOO_CUDA_TRY(EndStep(stream, tables, has_tasks, refreshes));
  // Last, so that nothing of the step comes behind it.
  return async_roots_ ? ComputeAsyncRoots(args, ticket, tables) : Status();
}

Status Engine::StepBatch(const StepArgs& args, int64_t ticket, const Tables& tables, size_t index) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const BlockBatch& batch = layout_.batches[index];
  const BatchTables& work = batch_tables_[index];
  const Dtype computation = batch.computation;
  SHAMPOO_CUDA_TRY(LoadGradients(stream, tables, work, computation));
  SHAMPOO_RETURN_IF_ERROR(ForEachShapeGroup(stream, batch, [&](const Handles& handles, const ShapeGroup& shape_group) {
    return MultiplyGradients(handles, batch, shape_group);
  }));
  SHAMPOO_CUDA_TRY(UpdateFactors(stream, tables, work, computation));
  const auto any = [&](const auto& is) {
    return std::any_of(batch.items.begin(), batch.items.end(),
                       [&](const auto& item) { return is(HostTaskOf(args, item)); });
  };
  if (any([](RootTask task) { return task == RootTask::kTakeSnapshot; })) {
    SHAMPOO_CUDA_TRY(RecordSnapshots(stream, tables, work));
  }
  if (any(Refreshes)) {
    SHAMPOO_RETURN_IF_ERROR(RefreshRoots(args, tables, batch));
    SHAMPOO_CUDA_TRY(StoreRoots(stream, tables, work, computation, ticket));
  }
  SHAMPOO_CUDA_TRY(FilterGradients(stream, tables, work, computation));
  const auto is_preconditioned = [&](const BatchItem& item) { return Preconditions(args, *item.block); };
  if (std::any_of(batch.items.begin(), batch.items.end(), is_preconditioned)) {
    SHAMPOO_RETURN_IF_ERROR(
        ForEachShapeGroup(stream, batch, [&](const Handles& handles, const ShapeGroup& shape_group) -> Status {
          // Sorted by phase: those that are preconditioned come first.
          const auto first = batch.items.begin() + static_cast<std::ptrdiff_t>(shape_group.first);
          const auto end =
              std::find_if_not(first, first + static_cast<std::ptrdiff_t>(shape_group.count), is_preconditioned);
          return first == end ? Status() : Contract(handles, batch, shape_group, end - first);
        }));
  }
  SHAMPOO_CUDA_TRY(CheckDirections(stream, tables, work, computation));
  SHAMPOO_CUDA_TRY(ApplyDirections(stream, tables, work, computation));
  return {};
}

// The same sequence of collectives on every rank, whatever they find: what was found is in the headers.
Status Engine::ExchangeBucket(const StepArgs& args, const Tables& tables, int32_t bucket) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const ExchangeArgs exchange{plan_.bucket_segment_bytes[bucket], args.inputs_hash, args.scalars_hash,
                              args.place + bucket};
  SHAMPOO_CUDA_TRY(WriteHeader(stream, tables, exchange));
  const int32_t error = args.gather.gather(args.gather.user, tables.gathered, exchange.segment_bytes, args.stream);
  if (error != 0) return CommFailed("all_gather returned ", error);
  SHAMPOO_CUDA_TRY(CompareHeaders(stream, tables, exchange));
  SHAMPOO_CUDA_TRY(ApplyExchanged(stream, tables, bucket));
  return {};
}

// work(handles, class) for every class of a batch, on as many streams as there are handles. What is enqueued on the
// caller's stream before is done when they begin, and they are done when what comes after does.
template <typename Work>
Status Engine::ForEachShapeGroup(cudaStream_t stream, const BlockBatch& batch, Work&& work) {
  const size_t streams = std::min(batch.shape_groups.size(), handles_.size());
  if (streams > 1) SHAMPOO_CUDA_TRY(cudaEventRecord(forked_.get(), stream));
  for (size_t i = 1; i < streams; ++i) {
    SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(HandlesOf(i).stream, forked_.get(), 0));
  }
  Status status;
  for (size_t c = 0; c < batch.shape_groups.size() && status.ok(); ++c) {
    status = work(HandlesOf(c % streams), batch.shape_groups[c]);
  }
  // Even after a failure: a fork that is not joined would end a capture, and leave work under way behind the step.
  for (size_t i = 1; i < streams; ++i) {
    Status joined = StatusOf(cudaEventRecord(joined_[i].get(), HandlesOf(i).stream), "cudaEventRecord");
    if (joined.ok()) joined = StatusOf(cudaStreamWaitEvent(stream, joined_[i].get(), 0), "cudaStreamWaitEvent");
    if (status.ok()) status = std::move(joined);
  }
  return status;
}

}  // namespace shampoo::cuda
