// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/cpu_backend.h"

#include <algorithm>

#include "core/backend/cpu/apply_pass.h"
#include "core/backend/cpu/magnitude.h"
#include "core/base/convert.h"
#include "core/blas/blas.h"

namespace shampoo {
namespace {

void SetIdentity(const StateSlot& slot, int64_t d, char* arena) {
  const float one = 1;
  for (int64_t i = 0; i < d; ++i) Narrow(&one, ElementAt(arena + slot.offset, slot.dtype, i * d + i), slot.dtype, 1);
}

}  // namespace

Status CpuBackend::Create(std::span<const Block> blocks, int threads, const HostExecutor& executor,
                          const HostAllocator& allocator, std::unique_ptr<Backend>* out) {
  std::unique_ptr<CpuBackend> backend(new CpuBackend);
  std::vector<const Block*> pointers;
  pointers.reserve(blocks.size());
  for (const Block& block : blocks) pointers.push_back(&block);
  backend->layout_ = SlotLayout::For(pointers);
  const auto slots = static_cast<size_t>(SlotsFor(static_cast<int64_t>(blocks.size()), threads));

  SHAMPOO_RETURN_IF_ERROR(blas::CheckThreads(static_cast<int64_t>(slots)));
  const int64_t bytes = static_cast<int64_t>(slots) * backend->layout_.bytes;
  SHAMPOO_RETURN_IF_ERROR(Allocation::Create(allocator, bytes, "workspace", &backend->workspace_));
  std::fill_n(backend->workspace_.data(), bytes, char{0});  // no page fault in a step
  backend->scratch_.resize(slots);
  for (blas::Scratch& scratch : backend->scratch_) {
    SHAMPOO_RETURN_IF_ERROR(blas::Scratch::Create(backend->layout_.scratch_bytes, &scratch));
  }
  backend->slot_reports_.resize(slots);
  SHAMPOO_RETURN_IF_ERROR(Executor::Create(threads, executor, &backend->executor_));
  *out = std::move(backend);
  return {};
}

void CpuBackend::InitializeState(std::span<const Block> blocks, std::span<const Settings> groups, char* arena) {
  executor_->ForEach(static_cast<int64_t>(blocks.size()), [&](int, int64_t i) {
    const Block& block = blocks[static_cast<size_t>(i)];
    const Settings& settings = groups[static_cast<size_t>(block.group)];
    std::fill_n(arena + block.factor[0].offset, block.state_bytes, char{0});  // factor[0] is a block's first state
    for (int k = 0; k < block.order(); ++k) {
      if (settings.initial_inverse == InitialInverse::kIdentity) {
        SetIdentity(block.inverse[static_cast<size_t>(k)], block.shape[k], arena);
      }
      reinterpret_cast<int32_t*>(arena + block.diagonal.offset)[k] = 1;
    }
  });
}

void CpuBackend::LargestMagnitudes(std::span<const GradientStretch> stretches, double* largest) {
  executor_->ForEach(static_cast<int64_t>(stretches.size()), [&](int, int64_t i) {
    const GradientStretch& stretch = stretches[static_cast<size_t>(i)];
    largest[i] = LargestMagnitude(stretch.data, stretch.dtype, stretch.elements);
  });
}

int64_t CpuBackend::FindNonFinite(const GradientStretch& stretch, double* value) {
  const int64_t at = shampoo::FindNonFinite(stretch.data, stretch.dtype, stretch.elements);
  Widen(ElementAt(stretch.data, stretch.dtype, at), stretch.dtype, value, 1);
  return at;
}

double CpuBackend::SquaredNorm(const Param& param, const Block& block, const void* grad) {
  return shampoo::SquaredNorm(block, grad, param.desc.grad_dtype);
}

void CpuBackend::PassThrough(const Param& param, const Buffers& buffers, Output output) {
  WriteUnchanged(param, buffers, output);
}

void CpuBackend::Step(std::span<const StepItem> items, char* arena, StepReport* report) {
  for (SlotReport& slot_report : slot_reports_) {
    slot_report.roots_computed = 0;
    slot_report.incident_count = 0;
  }
  executor_->ForEach(static_cast<int64_t>(items.size()), [&](int slot, int64_t i) {
    const auto at = static_cast<size_t>(slot);
    blas::ScratchUse use(&scratch_[at]);
    StepBlock(items[static_cast<size_t>(i)], arena, layout_, workspace_.data() + slot * layout_.bytes,
              &slot_reports_[at]);
  });
  for (const SlotReport& slot_report : slot_reports_) {
    report->roots_computed += slot_report.roots_computed;
    const int64_t kept = std::min<int64_t>(slot_report.incident_count, SlotReport::kMostIncidents);
    report->incidents.insert(report->incidents.end(), slot_report.incidents, slot_report.incidents + kept);
    report->incidents_dropped += slot_report.incident_count - kept;
  }
  // Which thread met an incident varies from run to run; what is reported must not.
  std::sort(report->incidents.begin(), report->incidents.end(), [](const RootIncident& a, const RootIncident& b) {
    return a.block != b.block ? std::less<>()(a.block, b.block) : a.dim < b.dim;
  });
}

}  // namespace shampoo
