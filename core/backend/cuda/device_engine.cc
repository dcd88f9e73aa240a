// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/device_engine.h"

#include <algorithm>

#include "core/backend/cuda/host_exchange_bytes.h"
#include "core/backend/cuda/host_root_bytes.h"
#include "core/backend/cuda/loader.h"
#include "core/base/amount.h"
#include "core/comm/segment_header.h"
#include "core/rules/muon.h"

namespace shampoo::cuda {
namespace {

Status StatusOfResult(const Result& result) {
  if (result.code == Code::kOk) return {};
  return Status(result.code, result.text == nullptr ? "the CUDA backend reported no reason" : result.text);
}

NewtonSchulz NewtonSchulzOf(const Settings& settings) {
  if (settings.orthogonalization == Orthogonalization::kExact) return {{}, NsNorm::kFrobenius, kExactSteps};
  return {settings.ns_coefficients, settings.ns_norm, settings.ns_steps};
}

}  // namespace

DeviceEngine::DeviceEngine(std::shared_ptr<const PlanData> plan, const Table* table)
    : plan_(std::move(plan)), table_(table) {
  for (const Block& block : plan_->blocks) owned_.push_back(plan_->Owns(block) ? 1 : 0);
  for (const Param& param : plan_->params) {
    const ParamDesc& desc = param.desc;
    params_.push_back(
        {param.elements, desc.param_dtype, desc.grad_dtype, desc.out_dtype, desc.copy_dtype, desc.group, desc.fan});
  }
  for (const Settings& settings : plan_->groups) {
    groups_.push_back(DeviceSettingsOf(settings));
    newton_schulz_.push_back(NewtonSchulzOf(settings));
  }
  if (plan_->rounds_stochastically()) FindRoundings();
}

void DeviceEngine::FindRoundings() {
  for (const Block& block : plan_->blocks) {
    const Settings& settings = plan_->group(block);
    roundings_.push_back({ElementPositions::Of(BlockPlace::Of(plan_->param(block).desc, block)),
                          settings.state_rounding == Rounding::kStochastic ? 1 : 0,
                          settings.param_rounding == Rounding::kStochastic ? 1 : 0});
  }
}

EngineDesc DeviceEngine::DescOf(const Desc& desc) {
  PlanView view{};
  view.blocks = plan_->blocks.data();
  view.block_count = static_cast<int64_t>(plan_->blocks.size());
  view.owned = owned_.data();
  view.params = params_.data();
  view.param_count = static_cast<int32_t>(params_.size());
  view.group_count = static_cast<int32_t>(groups_.size());
  view.groups = groups_.data();
  view.newton_schulz = newton_schulz_.data();
  view.state_bytes = plan_->state_bytes();
  view.bucket_segment_bytes = plan_->bucket_segment_bytes.data();
  view.bucket_count = static_cast<int32_t>(plan_->bucket_count);
  view.exchange_sets = static_cast<int32_t>(plan_->exchange_sets());
  view.replica_set_bytes = plan_->ReplicaSetBytes();
  view.replicas_agree_first = plan_->replicas_agree_first() ? 1 : 0;
  view.replica_rank = plan_->placement.replica_rank;
  view.replica_world = plan_->placement.replica_world;
  view.exchange_params = plan_->groups[0].communicate == Communicate::kParams ? 1 : 0;
  view.verify_replicas = plan_->placement.replica_world > 1 ? plan_->groups[0].verify_replicas : 0;
  view.shard_rank = desc.shards_agree ? plan_->placement.shard_rank : 0;
  view.shard_world = desc.shards_agree ? plan_->placement.shard_world : 1;
  view.shard_segment_bytes = ShardSegmentBytes(groups_.size(), params_.size());
  if (plan_->gathers) {
    const int64_t base = plan_->ReplicaBufferBytes() + view.shard_world * view.shard_segment_bytes;
    gather_ = std::make_unique<GatherTables>(*plan_, desc.has_all_to_all, base);
    view.gather = &gather_->view();
  }
  view.roundings = roundings_.empty() ? nullptr : roundings_.data();
  view.rounding_seed = static_cast<uint64_t>(plan_->groups[0].rounding_seed);
  int64_t host_exchange = desc.replicas_through_host ? view.replica_set_bytes : 0;
  if (desc.shards_through_host) host_exchange = std::max(host_exchange, HostBytesOfShards(view));
  const int32_t tf32 = plan_->groups[0].precondition_math == PreconditionMath::kTf32 ? 1 : 0;
  const int32_t track_times = plan_->groups[0].track_times ? 1 : 0;
  return {view,         desc.device, desc.allocator, desc.stream,
          desc.state,   tf32,        track_times,    HostRootBufferBytes(*plan_),
          host_exchange};
}

Status DeviceEngine::Create(std::shared_ptr<const PlanData> plan, const Desc& desc,
                            std::unique_ptr<DeviceEngine>* out) {
  const Devices devices = FindDevices();
  if (*devices.unavailable_reason != '\0')
    return Unsupported("device_type is SHAMPOO_CUDA, but CUDA cannot be used in this process: ",
                       devices.unavailable_reason);
  if (desc.device < 0 || desc.device >= devices.count) {
    return Invalid("device_id is ", desc.device, ": expected ", IndicesText(devices.count),
                   ", because the process can use ", CountText(devices.count, "GPU"));
  }
  const Table* table = nullptr;
  SHAMPOO_RETURN_IF_ERROR(FindPlugin(&table));
  std::unique_ptr<DeviceEngine> made(new DeviceEngine(std::move(plan), table));
  const EngineDesc described = made->DescOf(desc);
  SHAMPOO_RETURN_IF_ERROR(StatusOfResult(table->create(&described, &made->engine_)));
  *out = std::move(made);
  return {};
}

DeviceEngine::~DeviceEngine() {
  if (engine_ != nullptr) table_->destroy(engine_);
}

Status DeviceEngine::Initialize(char* arena, int64_t block, void* stream) const {
  return StatusOfResult(table_->initialize(engine_, arena, block, stream));
}

Status DeviceEngine::IsCapturing(void* stream, bool* captured) const {
  int32_t answer = 0;
  SHAMPOO_RETURN_IF_ERROR(StatusOfResult(table_->is_capturing(engine_, stream, &answer)));
  *captured = answer != 0;
  return {};
}

Status DeviceEngine::AwaitAsyncRoots(const std::vector<RootTask>& tasks) const {
  return StatusOfResult(table_->await_async_roots(engine_, tasks.data()));
}

Status DeviceEngine::Step(const StepArgs& args, int64_t* ticket) const {
  return StatusOfResult(table_->step(engine_, &args, ticket));
}

Status DeviceEngine::Export(const ExportArgs& args) const {
  return StatusOfResult(table_->export_averages(engine_, &args));
}

Status DeviceEngine::ReadReport(int64_t ticket, StepReport* out) const {
  return StatusOfResult(table_->read_report(engine_, ticket, out));
}

Status DeviceEngine::ReadBlockCounters(const char* arena, void* stream) const {
  return StatusOfResult(table_->read_block_counters(engine_, arena, stream));
}

Status DeviceEngine::Download(void* host, const void* device, int64_t bytes, void* stream) const {
  return bytes == 0 ? Status() : StatusOfResult(table_->download(engine_, host, device, bytes, stream));
}

Status DeviceEngine::Upload(void* device, const void* host, int64_t bytes, void* stream) const {
  return bytes == 0 ? Status() : StatusOfResult(table_->upload(engine_, device, host, bytes, stream));
}

Status DeviceEngine::RetryRoot(const RootRetry& retry, RootStatus* out) const {
  return StatusOfResult(table_->retry_root(engine_, &retry, out));
}

Status DeviceEngine::Staging(int64_t bytes, void** out) const {
  return StatusOfResult(table_->staging(engine_, bytes, out));
}

Status HostRootJobs::Start(const HostRootStart& start, int64_t* job) const {
  return StatusOfResult(table_->start_host_roots(engine_, &start, job));
}

Status HostRootJobs::Begin(int64_t job) const { return StatusOfResult(table_->begin_host_roots(engine_, job)); }

Status HostRootJobs::Fetch(const std::vector<HostRoot>& roots, int32_t buffer) const {
  return StatusOfResult(table_->fetch_host_roots(engine_, roots.data(), static_cast<int64_t>(roots.size()), buffer));
}

Status HostRootJobs::WaitForFetch(int32_t buffer) const {
  return StatusOfResult(table_->wait_for_host_roots(engine_, buffer));
}

Status HostRootJobs::Return(const std::vector<HostRoot>& roots) const {
  return StatusOfResult(table_->return_host_roots(engine_, roots.data(), static_cast<int64_t>(roots.size())));
}

Status HostRootJobs::End(int64_t job) const { return StatusOfResult(table_->end_host_roots(engine_, job)); }

Status ExchangeMemory::Fetch(int64_t offset, const void* from, int64_t bytes, void* stream) const {
  return StatusOfResult(table_->fetch_exchange(engine_, offset, from, bytes, stream));
}

Status ExchangeMemory::Return(void* to, int64_t offset, int64_t bytes, void* stream) const {
  return StatusOfResult(table_->return_exchange(engine_, to, offset, bytes, stream));
}

}  // namespace shampoo::cuda
