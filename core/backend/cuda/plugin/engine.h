// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/backend/cuda/device_layout.h"
#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/async_roots.h"
#include "core/backend/cuda/plugin/basis_batch_step.h"
#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/device_memory.h"
#include "core/backend/cuda/plugin/host_exchange.h"
#include "core/backend/cuda/plugin/host_root_transfer.h"
#include "core/backend/cuda/plugin/kernel_tables.h"
#include "core/backend/cuda/plugin/muon_step.h"
#include "core/backend/cuda/plugin/orthogonalizer.h"
#include "core/backend/cuda/plugin/phase_timer.h"
#include "core/backend/cuda/plugin/rank_exchanges.h"
#include "core/backend/cuda/plugin/root_solver.h"
#include "core/backend/cuda/plugin/shampoo_products.h"
#include "core/backend/cuda/plugin/shape_group_streams.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// The plugin's part of one optimizer: data for kernels (Tables), working memory, streams and handles, and the functions
// that use them. The plugin exports the public functions through the struct Table (interface.h), whose comments
// describe them.
struct Engine {
 public:
  static Status Create(const EngineDesc& desc, std::unique_ptr<Engine>* out);
  ~Engine();  // the engine's device must be the current device
  int device() const { return device_; }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Status Initialize(char* arena, int64_t block, cudaStream_t stream);
  Status AwaitAsyncRoots(const RootTask* tasks);
  Status Step(const StepArgs& args, int64_t* ticket);
  Status Export(const ExportArgs& args);
  Status IsCapturing(cudaStream_t stream, int32_t* captured);
  Status ReadReport(int64_t ticket, StepReport* out);
  Status RetryRoot(const RootRetry& retry, RootStatus* out);
  Status Copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
  Status Staging(int64_t bytes, void** out);
  Status StartHostRoots(const HostRootStart& start, int64_t* job);
  HostRootTransfer* host_root_transfer() { return host_root_transfer_.get(); }
  HostExchange* host_exchange() { return host_exchange_.get(); }

  void* state() const { return state_; }
  Status ReadBlockCounters(const char* arena, cudaStream_t stream);
  const RootStatus* roots() const {
    return reinterpret_cast<const RootStatus*>(host_memory_.host() + sizeof(HostReport));
  }
  const int64_t* counted_steps() const {
    return reinterpret_cast<const int64_t*>(host_memory_.host() + counted_steps_at_);
  }
  const double* seconds() const {
    static constexpr std::array<double, kStepPhaseCount> kNone{};
    return timer_ ? timer_->seconds() : kNone.data();
  }
  const uint64_t* parameter_hashes() const {
    return reinterpret_cast<const uint64_t*>(host_memory_.host() + reported_hashes_at_);
  }
  const int64_t* block_counters() const {
    return reinterpret_cast<const int64_t*>(host_memory_.host() + reported_block_counters_at_);
  }

 private:
  explicit Engine(const EngineDesc& desc);
  Status Build(const EngineDesc& desc);
  void FindTables();
  Status FillTables(cudaStream_t stream);
  Status PreloadLibraries();

  Status CopyReport(StepReport* out) const;
  Status RecordWork(cudaStream_t stream);
  // The parts of a step; see engine_step.cc.
  Status Enqueue(const StepArgs& args, int64_t ticket, const Tables& tables);
  Status EnqueueExport(const StepArgs& args, int64_t ticket, const Tables& tables);
  Status StepBatch(const StepArgs& args, int64_t ticket, const Tables& tables, const StepPhases& phases, size_t batch);
  // Inverse roots; see engine_roots.cc.
  struct RootRun;
  struct RootContext;
  struct RootInputs;
  RootContext ContextOf(const Tables& tables) const;
  Status WaitForAsyncRoots(const StepArgs& args);
  Status EnqueueAsyncRoots(const AsyncRoots& async, const AsyncRoots::Job& job);
  Status RefreshRoots(const StepArgs& args, const Tables& tables, const BlockBatch& batch);
  Status ComputeRuns(const RootInputs& inputs, RootTask task, const BlockBatch& batch, const RootContext& context);
  Status ComputeRun(const DeviceSettings* groups, const BlockBatch& batch, const RootRun& run, int k,
                    const RootContext& context);
  Status PreloadRoots();  // makes cuSOLVER and cuBLAS load the kernels that compute roots
  RootBatch MatrixOf(int64_t n, Dtype computation, Dtype root_dtype);
  // Returns whether a step with these tasks begins to use async roots of a block, or overwrites the copied factor
  // matrices from which such roots are computed.
  bool AwaitsRoots(const RootTask* tasks, int64_t block) const {
    return plan_.owned[block] != 0 &&
           (tasks[block] == RootTask::kAdoptDeviceRoots || tasks[block] == RootTask::kTakeSnapshot);
  }
  bool counts_blocks() const { return has_async_roots() || basis_step_ != nullptr; }  // see Table::block_counters
  bool has_async_roots() const { return async_roots_ != nullptr || host_root_transfer_ != nullptr; }
  RootTask HostTaskOf(const StepArgs& args, const BatchItem& item) const {
    return args.tasks[item.block - plan_.blocks];
  }
  DeviceMemory::Source MemorySource(cudaStream_t stream) const { return {allocator_, device_, stream, copies_.get()}; }
  const Handles& HandlesOf(size_t i) const { return handles_[i].get(); }

  PlanView plan_;
  int device_;
  HostAllocator allocator_;
  bool tf32_;
  std::vector<DeviceSettings> planned_;      // by group: the settings at the time when the plan was made
  std::vector<NewtonSchulz> newton_schulz_;  // by group
  std::vector<Dtype> narrowest_;             // by group: the narrowest computation dtype of its blocks on all ranks
  DeviceLayout layout_;
  OwnedStream copies_;  // memory is freed in the order of this stream, so the stream is destroyed after the memory
  DeviceMemory workspace_;
  DeviceMemory own_state_;
  RankExchanges exchanges_{plan_};
  // Pieces of memory for Staging(), which uses only the last piece. If that piece is too small, Staging() adds a larger
  // one. All pieces are freed with the engine. Freeing a piece earlier could cause a deadlock: cudaFree waits for all
  // devices of the process, and a collective of another rank, on one of these devices, may wait for this rank.
  std::vector<std::unique_ptr<DeviceMemory>> staging_;
  int64_t staging_bytes_ = 0;
  MappedMemory host_memory_;
  int64_t counted_steps_at_ = 0;  // this member and the next two are offsets in host_memory_
  int64_t reported_block_counters_at_ = 0;
  int64_t reported_hashes_at_ = 0;
  char* state_ = nullptr;  // the arena: memory of own_state_ or of EngineDesc::state

  Tables tables_{};
  std::vector<BatchTables> batch_tables_;  // by batch of the layout
  std::vector<OwnedHandles> handles_;      // the first is bound to the caller's stream
  OwnedEvent forked_;
  std::vector<OwnedEvent> joined_;
  ShapeGroupStreams streams_{handles_, forked_, joined_};
  OwnedEvent done_;  // recorded after the newest work that uses the engine's memory; see RecordWork()
  std::unique_ptr<RootSolver> roots_;
  std::unique_ptr<ShampooProducts> shampoo_products_;
  std::unique_ptr<Orthogonalizer> orthogonalizer_;
  std::unique_ptr<BasisBatchStep> basis_step_;  // nullptr: no method works in eigenbases
  std::unique_ptr<MuonStep> muon_step_;         // nullptr: method muon orthogonalizes no block
  // async_roots_ computes async roots on the device, and host_root_transfer_ is for async roots on the host. At least
  // one of these two pointers is nullptr.
  std::unique_ptr<AsyncRoots> async_roots_;
  std::unique_ptr<HostRootTransfer> host_root_transfer_;
  std::unique_ptr<HostExchange> host_exchange_;  // nullptr: all communicators take device memory
  std::unique_ptr<PhaseTimer> timer_;            // nullptr: no times are measured
  int64_t tickets_ = 0;                          // the ticket of the last step
  int64_t export_tickets_ = 0;                   // the ticket of the last export; see StepArgs::exports
  bool advances_averages_ = false;               // some group sets averaging=schedule_free or weight_ema
  int64_t recorded_ = 0;                         // the last ticket that done_ covers
  bool has_work_ = false;                        // done_ has been recorded, for a step or for another call
  bool buffers_are_set_ = false;                 // false: the next step must call SetBuffers()
  bool was_captured_ = false;                    // some step was captured
  bool lost_work_ = false;                       // a call has failed, so done_ may not cover all running work
};

}  // namespace shampoo::cuda
