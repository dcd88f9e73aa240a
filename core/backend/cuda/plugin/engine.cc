// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/engine.h"

#include <algorithm>
#include <cstring>

#include "core/backend/cuda/plugin/compute_capability.h"
#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/kernel_list.h"
#include "core/base/round_up.h"
#include "core/rules/root_spec.h"

namespace shampoo::cuda {
namespace {

std::vector<const Block*> OwnedBlocks(const PlanView& plan) {
  std::vector<const Block*> owned;
  for (int64_t b = 0; b < plan.block_count; ++b) {
    if (plan.owned[b] != 0) owned.push_back(plan.blocks + b);
  }
  return owned;
}

PlanCounts CountsOf(const PlanView& plan) {
  PlanCounts counts{plan.block_count, plan.param_count, plan.group_count, 0, plan.verify_replicas > 0};
  for (int64_t b = 0; b < plan.block_count; ++b) {
    // With shard_mode=gather, only the owner of a block scans the block.
    const bool is_scanned = plan.gather == nullptr || plan.owned[b] != 0;
    counts.scan_tiles += is_scanned ? TileCount(plan.blocks[b].elements) : 0;
  }
  for (int32_t p = 0; counts.verifies && p < plan.param_count; ++p)
    counts.hash_tiles += TileCount(plan.params[p].elements);
  counts.rounds = plan.roundings != nullptr;
  if (plan.gather == nullptr) return counts;
  counts.whole_blocks = plan.block_count;
  counts.slices = plan.gather->slice_count;
  counts.series = plan.gather->series_count;
  counts.slice_tiles = plan.gather->tile_count;
  return counts;
}

std::vector<RootSizes> SizesOfRoots(const PlanView& plan, const std::vector<BlockBatch>& batches) {
  std::vector<RootSizes> sizes;
  for (const BlockBatch& batch : batches) {
    for (const ShapeGroup& shape_group : batch.shape_groups) {
      const Block& block = *batch.items[shape_group.first].block;
      for (int k = 0; k < block.factor_count(); ++k) {
        if (!block.has_factor(k)) continue;
        if (batch.in_basis) {
          if (block.shape[k] > 1) {
            sizes.push_back(
                {RootMethod::kEigen, block.shape[k], static_cast<int64_t>(shape_group.count), block.computation});
          }
          continue;
        }
        sizes.push_back({MethodOfRoot(plan.groups[block.group], block.root, 1, block.shape[k]), block.shape[k],
                         static_cast<int64_t>(shape_group.count), block.root_dtype,
                         plan.groups[block.group].track_root_residuals});
      }
    }
  }
  return sizes;
}

// Orders the reads that precede this call before the reads that follow it.
void AcquireFence() {
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic ignored "-Wtsan"  // the sanitizer does not see the writes of a device
#endif
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

}  // namespace

Engine::Engine(const EngineDesc& desc)
    : plan_(desc.plan),
      device_(desc.device),
      allocator_(desc.allocator),
      tf32_(desc.tf32 != 0),
      planned_(desc.plan.groups, desc.plan.groups + desc.plan.group_count),
      newton_schulz_(desc.plan.newton_schulz, desc.plan.newton_schulz + desc.plan.group_count),
      narrowest_(planned_.size(), Dtype::kF64) {
  plan_.groups = planned_.data();
  plan_.newton_schulz = newton_schulz_.data();
  for (const DeviceSettings& group : planned_) {
    if (group.averaging == Averaging::kScheduleFree || group.weight_ema != 0) advances_averages_ = true;
  }
  for (int64_t b = 0; b < plan_.block_count; ++b) {
    const Block& block = plan_.blocks[b];
    if (block.computation == Dtype::kF32) narrowest_[static_cast<size_t>(block.group)] = Dtype::kF32;
  }
}

Status Engine::Create(const EngineDesc& desc, std::unique_ptr<Engine>* out) {
  const DeviceScope scope(desc.device);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  SHAMPOO_RETURN_IF_ERROR(CheckComputeCapability(desc.device));
  std::unique_ptr<Engine> made(new Engine(desc));
  const Status status = made->Build(desc);
  if (!status.ok()) return status.Copy();
  *out = std::move(made);
  return {};
}

Engine::~Engine() {
  // Work of this engine may still be running, on the caller's stream and on the engine's own streams. The thread of
  // async_roots_ may be enqueuing more work.
  async_roots_.reset();
  host_root_transfer_.reset();
  if (has_work_) (void)cudaEventSynchronize(done_.get());
  if (copies_.get() != nullptr) (void)cudaStreamSynchronize(copies_.get());
  // Replays of graphs may still run, on streams that this library does not know. After a failed call (lost_work_), work
  // may still run that was enqueued after done_ was last recorded.
  if (was_captured_ || lost_work_) (void)cudaDeviceSynchronize();
}

Status Engine::Build(const EngineDesc& desc) {
  const auto stream = static_cast<cudaStream_t>(desc.stream);
  const std::vector<const Block*> owned = OwnedBlocks(plan_);
  const PlanCounts counts = CountsOf(plan_);
  SHAMPOO_RETURN_IF_ERROR(copies_.Create());
  SHAMPOO_RETURN_IF_ERROR(done_.Create());
  SHAMPOO_RETURN_IF_ERROR(forked_.Create());
  std::vector<BlockBatch> batches = MakeBatches(owned, plan_.groups);
  handles_.resize(HandleCount(batches));
  for (size_t i = 0; i < handles_.size(); ++i) {
    // Steps compute roots in the caller's stream, to which handles_[0] is bound. The other handles therefore do not
    // need cuSOLVER. AsyncRoots has its own stream and handles.
    SHAMPOO_RETURN_IF_ERROR(
        i == 0 ? handles_[i].Create(OwnedHandles::Stream::kBoundLater, OwnedHandles::Libraries::kBlasAndSolver)
               : handles_[i].Create(OwnedHandles::Stream::kOwnHighPriority, OwnedHandles::Libraries::kBlas));
  }
  joined_.resize(handles_.size());
  for (OwnedEvent& event : joined_) SHAMPOO_RETURN_IF_ERROR(event.Create());
  int64_t root_bytes = 0;
  if (!handles_.empty()) {
    const std::vector<RootSizes> sizes = SizesOfRoots(plan_, batches);
    SHAMPOO_RETURN_IF_ERROR(RootSolver::Create(sizes, HandlesOf(0), &roots_));
    root_bytes = roots_->WorkspaceBytes();
    int64_t async = 0;
    for (const Block* block : owned) {
      if (block->snapshot_step.present()) async = std::max(async, plan_.groups[block->group].root_async);
    }
    if (desc.host_root_bytes > 0) {
      SHAMPOO_RETURN_IF_ERROR(
          HostRootTransfer::Create(device_, plan_, async, desc.host_root_bytes, &host_root_transfer_));
    } else if (async > 0) {
      SHAMPOO_RETURN_IF_ERROR(AsyncRoots::Create(sizes, plan_.block_count, async, &async_roots_));
    }
  }
  layout_ = LayOutDevice(std::move(batches), plan_.groups, counts, root_bytes);
  tables_.scan_tile_count = counts.scan_tiles;
  tables_.hash_tile_count = counts.hash_tiles;
  const DeviceMemory::Source source = MemorySource(stream);
  SHAMPOO_RETURN_IF_ERROR(workspace_.Allocate(source, DeviceMemory::Access::kOwnDevice, layout_.bytes, "workspace"));
  const bool has_bases = std::any_of(layout_.batches.begin(), layout_.batches.end(),
                                     [](const BlockBatch& batch) { return batch.in_basis; });
  shampoo_products_ = std::make_unique<ShampooProducts>(plan_, layout_, workspace_.data(), streams_, tf32_);
  orthogonalizer_ = std::make_unique<Orthogonalizer>(plan_, layout_, workspace_.data(), streams_, tf32_);
  if (has_bases) {
    basis_step_ = std::make_unique<BasisBatchStep>(plan_, layout_, workspace_.data(), streams_, *orthogonalizer_,
                                                   roots_.get(), tf32_);
  }
  const bool orthogonalizes = std::any_of(layout_.batches.begin(), layout_.batches.end(),
                                          [](const BlockBatch& batch) { return batch.is_orthogonalized; });
  if (orthogonalizes) {
    auto* const divisors = reinterpret_cast<double*>(workspace_.data() + layout_.orthogonal.divisors);
    muon_step_ = std::make_unique<MuonStep>(divisors, *orthogonalizer_);
  }
  if (desc.state == nullptr) {
    SHAMPOO_RETURN_IF_ERROR(own_state_.Allocate(source, DeviceMemory::Access::kOwnDevice, plan_.state_bytes, "state"));
    state_ = own_state_.data();
  } else {
    state_ = static_cast<char*>(desc.state);
  }
  SHAMPOO_RETURN_IF_ERROR(exchanges_.Allocate(source, &tables_));
  if (desc.host_exchange_bytes > 0) {
    SHAMPOO_RETURN_IF_ERROR(HostExchange::Create(desc.host_exchange_bytes, &host_exchange_));
  }
  if (desc.track_times != 0) {
    // A step changes its phase at most 10 times for each batch, 2 times for each bucket, and 8 times in total at the
    // beginning and the end of the step.
    const size_t changes = 10 * layout_.batches.size() + 2 * static_cast<size_t>(exchanges_.bucket_count()) + 8;
    SHAMPOO_RETURN_IF_ERROR(PhaseTimer::Create(changes, async_roots_ ? async_roots_->slots() : 0, &timer_));
  }
  int64_t all_roots = 0;
  for (int64_t b = 0; b < plan_.block_count; ++b) all_roots += plan_.blocks[b].factor_count();
  constexpr int64_t kStepBytes = sizeof(int64_t);
  counted_steps_at_ = RoundUp(
      static_cast<int64_t>(sizeof(HostReport)) + all_roots * static_cast<int64_t>(sizeof(RootStatus)), kStepBytes);
  reported_block_counters_at_ = counted_steps_at_ + plan_.group_count * kStepBytes;
  const int64_t reported_steps = counts_blocks() ? plan_.block_count : 0;
  reported_hashes_at_ = reported_block_counters_at_ + reported_steps * kStepBytes;
  const int64_t reported_hashes = plan_.verify_replicas > 0 ? plan_.param_count : 0;
  SHAMPOO_RETURN_IF_ERROR(
      host_memory_.Allocate(reported_hashes_at_ + reported_hashes * static_cast<int64_t>(sizeof(uint64_t))));
  for (size_t i = 0; i < handles_.size(); ++i) {
    SHAMPOO_RETURN_IF_ERROR(handles_[i].SetWorkspace(
        workspace_.data() + layout_.blas + static_cast<int64_t>(i) * layout_.blas_bytes, layout_.blas_bytes));
  }
  if (async_roots_) {
    SHAMPOO_RETURN_IF_ERROR(async_roots_->SetWorkspace(workspace_.data() + layout_.async.blas, layout_.blas_bytes));
  }
  FindTables();
  SHAMPOO_RETURN_IF_ERROR(FillTables(stream));
  const cudaError_t loaded = KernelEntry::LoadAll();
  if (loaded == cudaErrorNoKernelImageForDevice) return NoKernelsFor(device_);
  SHAMPOO_RETURN_IF_ERROR(StatusOf(loaded, "cudaFuncGetAttributes"));
  if (async_roots_) {
    SHAMPOO_RETURN_IF_ERROR(async_roots_->StartThread(
        device_, plan_.group_count,
        [this](const AsyncRoots& async, const AsyncRoots::Job& job) { return EnqueueAsyncRoots(async, job); }));
  }
  if (handles_.empty()) return {};
  SHAMPOO_RETURN_IF_ERROR(handles_[0].Bind(stream));
  Status called = PreloadLibraries();
  // Wait after an error, too, because earlier calls have enqueued work.
  for (size_t i = 0; i < handles_.size(); ++i) {
    Status waited = StatusOf(cudaStreamSynchronize(HandlesOf(i).stream), "cudaStreamSynchronize");
    if (called.ok()) called = std::move(waited);
  }
  return called;
}

// Makes cuBLAS and cuSOLVER load the kernels that steps use. KernelEntry describes why kernels are loaded before the
// first step. Both libraries choose kernels by the sizes of their arguments, so this function calls them with the sizes
// of steps. The data are NaN (see FillTables), and the results are not used.
Status Engine::PreloadLibraries() {
  for (size_t b = 0; b < layout_.batches.size(); ++b) {
    const BlockBatch& batch = layout_.batches[b];
    if (batch.in_basis) {
      SHAMPOO_RETURN_IF_ERROR(basis_step_->Preload(tables_, batch_tables_[b], batch));
      continue;
    }
    if (batch.is_orthogonalized) {
      SHAMPOO_RETURN_IF_ERROR(muon_step_->Preload(tables_, batch_tables_[b], batch));
      continue;
    }
    for (size_t i = 0; i < batch.shape_groups.size(); ++i) {
      const ShapeGroup& shape_group = batch.shape_groups[i];
      const Handles& handles = HandlesOf(i % handles_.size());
      SHAMPOO_RETURN_IF_ERROR(shampoo_products_->Preload(handles, batch, shape_group));
    }
  }
  return PreloadRoots();
}

void Engine::FindTables() {
  char* const base = workspace_.data();
  const auto at = [base]<typename Table>(Table** to, int64_t offset) { *to = reinterpret_cast<Table*>(base + offset); };
  at(&tables_.blocks, layout_.blocks);
  at(&tables_.params, layout_.params);
  at(&tables_.buffers, layout_.buffers);
  at(&tables_.groups, layout_.groups);
  at(&tables_.work, layout_.work);
  at(&tables_.state, layout_.state);
  at(&tables_.roots, layout_.roots);
  at(&tables_.scan_tiles, layout_.scan_tiles);
  at(&tables_.slices, layout_.slices);
  at(&tables_.series, layout_.series);
  at(&tables_.slice_tiles, layout_.slice_tiles);
  at(&tables_.scanned, layout_.scanned);
  at(&tables_.matrix_tiles, layout_.matrix_tiles);
  at(&tables_.scanned_factors, layout_.scanned_factors);
  tables_.matrix_tile_count = layout_.matrix_tile_count;
  if (counts_blocks()) {
    at(&tables_.tasks, layout_.tasks);
  }
  if (has_async_roots()) {
    at(&tables_.async_divisors, layout_.async.divisors);
    at(&tables_.async_flags, layout_.async.flags);
    at(&tables_.async_roots, layout_.async.statuses);
  }
  tables_.verify_replicas = plan_.verify_replicas;
  if (plan_.verify_replicas > 0) {
    at(&tables_.hash_tiles, layout_.hash_tiles);
    at(&tables_.tile_hashes, layout_.tile_hashes);
    at(&tables_.hashes, layout_.hashes);
    tables_.reported_hashes = reinterpret_cast<uint64_t*>(host_memory_.device() + reported_hashes_at_);
  }
  tables_.host_report = reinterpret_cast<HostReport*>(host_memory_.device());
  tables_.host_roots = reinterpret_cast<RootStatus*>(host_memory_.device() + sizeof(HostReport));
  if (counts_blocks()) {
    tables_.reported_block_counters = reinterpret_cast<int64_t*>(host_memory_.device() + reported_block_counters_at_);
  }
  if (plan_.roundings != nullptr) at(&tables_.roundings, layout_.roundings);
  tables_.rounding_seed = plan_.rounding_seed;
  tables_.block_count = plan_.block_count;
  tables_.group_count = plan_.group_count;

  tables_.exchange_params = plan_.exchange_params;
  tables_.replica_rank = plan_.replica_rank;
  tables_.replica_world = plan_.replica_world;
  tables_.param_count = plan_.param_count;
  tables_.shard_rank = plan_.shard_rank;
  tables_.shard_world = plan_.shard_world;
  tables_.shard_segment_bytes = plan_.shard_segment_bytes;
  if (plan_.shard_world == 1) return;
  tables_.counted_steps = reinterpret_cast<int64_t*>(host_memory_.device() + counted_steps_at_);
}

Status Engine::Initialize(char* arena, int64_t block, cudaStream_t stream) {
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  const auto* const initial = reinterpret_cast<const InitialStates*>(workspace_.data() + layout_.initial);
  const auto enqueue = [&]() -> Status {
    if (block >= 0) {
      SHAMPOO_CUDA_TRY(InitializeFactors(stream, tables_, arena, block, 1, initial));
      return {};
    }
    SHAMPOO_CUDA_TRY(cudaMemsetAsync(arena, 0, static_cast<size_t>(plan_.state_bytes), stream));
    SHAMPOO_CUDA_TRY(InitializeFactors(stream, tables_, arena, 0, plan_.block_count, initial));
    return {};
  };
  Status status = enqueue();
  lost_work_ = lost_work_ || !status.ok();
  return status.ok() ? RecordWork(stream) : std::move(status);
}

Status Engine::ReadBlockCounters(const char* arena, cudaStream_t stream) {
  if (!counts_blocks()) return {};
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  SHAMPOO_CUDA_TRY(ReportBlockCounters(stream, tables_, arena));
  SHAMPOO_CUDA_TRY(cudaStreamSynchronize(stream));
  return {};
}

Status Engine::IsCapturing(cudaStream_t stream, int32_t* captured) {
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  SHAMPOO_CUDA_TRY(cudaStreamIsCapturing(stream, &state));
  *captured = state == cudaStreamCaptureStatusNone ? 0 : 1;
  return {};
}

Status Engine::ReadReport(int64_t ticket, StepReport* out) {
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  if (ticket != 0 && ticket <= recorded_) {
    // Usually the work has already ended, so that no wait is needed.
    const cudaError_t state = cudaEventQuery(done_.get());
    if (state == cudaErrorNotReady) {
      (void)cudaGetLastError();  // clears cudaErrorNotReady, which is not an error here
      SHAMPOO_CUDA_TRY(cudaEventSynchronize(done_.get()));
    } else {
      SHAMPOO_RETURN_IF_ERROR(StatusOf(state, "cudaEventQuery"));
    }
    if (timer_) SHAMPOO_RETURN_IF_ERROR(timer_->Collect());
  }
  return CopyReport(out);
}

// Copies the report, and tries again if a step was writing the report during the copy (see HostReport). Some calls read
// the report without waiting for the step, and ReadReport() waits for no replays.
Status Engine::CopyReport(StepReport* out) const {
  const auto* const report = reinterpret_cast<const HostReport*>(host_memory_.host());
  constexpr int kMaxTries = 1 << 20;  // the device writes the report within microseconds
  for (int i = 0; i < kMaxTries; ++i) {
    const int64_t ended = __atomic_load_n(&report->ended, __ATOMIC_ACQUIRE);
    std::memcpy(out, &report->report, sizeof *out);
    AcquireFence();
    if (__atomic_load_n(&report->begun, __ATOMIC_RELAXED) == ended) return {};
  }
  return Status(Code::kDevice, "the report of a step is incomplete, and the device does not finish it");
}

// Records an event after work that uses the engine's memory. The destructor waits for this event.
Status Engine::RecordWork(cudaStream_t stream) {
  Status status = StatusOf(cudaEventRecord(done_.get(), stream), "cudaEventRecord");
  (status.ok() ? has_work_ : lost_work_) = true;
  return status;
}

Status Engine::Copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  SHAMPOO_CUDA_TRY(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream));
  SHAMPOO_CUDA_TRY(cudaStreamSynchronize(stream));
  return {};
}

Status Engine::Staging(int64_t bytes, void** out) {
  const DeviceScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  if (bytes > staging_bytes_) {
    auto made = std::make_unique<DeviceMemory>();
    const int64_t grown = std::max(bytes, 2 * staging_bytes_);
    SHAMPOO_RETURN_IF_ERROR(
        made->Allocate(MemorySource(copies_.get()), DeviceMemory::Access::kPeers, grown, "exchange buffers"));
    SHAMPOO_CUDA_TRY(cudaStreamSynchronize(copies_.get()));  // the caller's allocator may allocate in stream order
    staging_.push_back(std::move(made));
    staging_bytes_ = grown;
  }
  *out = staging_.back()->data();
  return {};
}

}  // namespace shampoo::cuda
