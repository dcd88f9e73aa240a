// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>

#include "core/backend/cpu/apply_pass.h"
#include "core/backend/cpu/block_step.h"
#include "core/backend/cpu/chunks.h"
#include "core/backend/cpu/magnitude.h"
#include "core/backend/cpu/slice_pass.h"
#include "core/base/convert.h"
#include "core/base/hash.h"
#include "core/blas/blas.h"
#include "core/plan/block_states.h"
#include "core/plan/cost.h"
#include "core/rules/basis.h"

namespace shampoo {
namespace {

void SetIdentity(const StateSlot& slot, int64_t d, char* arena) {
  const float one = 1;
  for (int64_t i = 0; i < d; ++i) {  // for a slot of form kNone, KeptAt returns the position in a full square matrix
    Narrow(&one, ElementAt(arena + slot.offset, slot.dtype, KeptAt(slot.form, d, i, i)), slot.dtype, 1);
  }
}

template <typename State>
int64_t SpanBytes(const State& state) {
  const int64_t elements =
      state.slot->form == SymmetricForm::kNone ? state.shape.Product() : SpanElements(state.slot->form, state.shape[0]);
  return elements * static_cast<int64_t>(SizeOf(state.slot->dtype));
}

double CostOfSpans(std::span<const MemorySpan> spans) {
  double elements = 0;
  for (const MemorySpan& span : spans) elements += static_cast<double>(span.elements);
  return static_cast<double>(kCostOfElement) * elements;
}

// Returns the cost of the items if it is below `enough`, otherwise any number that is at least `enough`. The function
// therefore reads only the first items of a long list.
double CostOfItems(std::span<const StepItem> items, double enough) {
  double cost = 0;
  for (const StepItem& item : items) {
    if (cost >= enough) break;
    if (item.skip_update) continue;
    cost += item.schedule.refreshes() ? StepCost(*item.block) : static_cast<double>(CostOfOrdinaryStep(*item.block));
  }
  return cost;
}

}  // namespace

template <typename Cost>
int CpuBackend::ThreadsFor(const Cost& cost) const {
  const int max_threads = executor_->slots();
  return chooses_threads_ && max_threads > 1 ? UsefulThreads(cost(), max_threads) : max_threads;
}

Status CpuBackend::Create(const PlanData& plan, const HostExecutor& executor, const HostAllocator& allocator,
                          std::unique_ptr<CpuBackend>* out) {
  std::unique_ptr<CpuBackend> backend(new CpuBackend);
  std::vector<const Block*> pointers;
  for (const Block& block : plan.blocks) {
    if (plan.Owns(block)) pointers.push_back(&block);
  }
  WorkspaceLayout& layout = backend->layout_;
  layout = WorkspaceLayout::For(pointers, LargestDim(plan), plan.groups, plan.threads);
  backend->measures_ = plan.groups[0].track_times;
  backend->chooses_threads_ = plan.placement.threads == 0 && plan.groups[0].threads == 0;

  SHAMPOO_RETURN_IF_ERROR(blas::CheckThreads());
  SHAMPOO_RETURN_IF_ERROR(Allocation::Create(allocator, layout.bytes(), "workspace", &backend->workspace_));
  if (layout.recovery_bytes > 0) {
    auto* const elements = reinterpret_cast<double*>(backend->workspace_.data() + layout.RecoveryAt());
    backend->recovery_.workspace = {elements, reinterpret_cast<int32_t*>(elements + layout.recovery_elements)};
  }
  std::fill_n(backend->workspace_.data(), layout.bytes(), char{0});  // so that steps have no page faults
  backend->scratch_.resize(static_cast<size_t>(layout.slots));
  for (blas::Scratch& scratch : backend->scratch_) {
    SHAMPOO_RETURN_IF_ERROR(blas::Scratch::Create(layout.scratch, &scratch));
  }
  SHAMPOO_RETURN_IF_ERROR(Executor::Create(plan.threads, executor, &backend->executor_));
  *out = std::move(backend);
  return {};
}

void CpuBackend::InitializeState(const PlanData& plan, char* arena) {
  const double elements = static_cast<double>(plan.state_bytes()) / sizeof(float);
  executor_->ForEach(static_cast<int64_t>(plan.blocks.size()),
                     ThreadsFor([&] { return static_cast<double>(kCostOfElement) * elements; }), [&](int, int64_t i) {
                       const Block& block = plan.block(i);
                       if (!plan.Owns(block)) return;
                       std::fill_n(arena + block.state_offset, block.state_bytes, char{0});
                       InitializeFactors(block, plan.group(block), arena);
                     });
}

void CpuBackend::InitializeFactors(const Block& block, const Settings& settings, char* arena) {
  ForEachState(&block, [&](const auto& state) {
    if (!state.slot->present() || state.is_elementwise) return;
    std::fill_n(arena + state.slot->offset, SpanBytes(state), char{0});
  });
  for (int k = 0; k < block.factor_count(); ++k) {
    const auto at = static_cast<size_t>(k);
    const int64_t d = block.shape[k];
    if (block.inverse[at].present() && settings.initial_inverse == InitialInverse::kIdentity) {
      SetIdentity(block.inverse[at], d, arena);
    }
    if (block.basis[at].present()) SetIdentity(block.basis[at], d, arena);
    if (block.kl_scale[at].present()) {
      const double scale = 1 / std::sqrt(EigenvalueBeforeGradients(settings));
      for (int64_t i = 0; i < d; ++i) {
        Narrow(&scale, ElementAt(arena + block.kl_scale[at].offset, block.kl_scale[at].dtype, i),
               block.kl_scale[at].dtype, 1);
      }
    }
    if (block.diagonal.present()) reinterpret_cast<int32_t*>(arena + block.diagonal.offset)[k] = 1;
  }
}

void CpuBackend::LargestMagnitudes(std::span<const MemorySpan> spans, double* largest) {
  const int threads = ThreadsFor([&] { return CostOfSpans(spans); });
  executor_->ForEach(static_cast<int64_t>(spans.size()), threads, [&](int, int64_t i) {
    const PhaseScope scope(nullptr, measures_ ? &times_ : nullptr, StepPhase::kCheck);
    const MemorySpan& span = spans[static_cast<size_t>(i)];
    largest[i] = LargestMagnitude(span.data, span.dtype, span.elements);
  });
}

GradientInspection CpuBackend::Inspect(const StepItem& item) {
  return InspectGradient(item, reinterpret_cast<double*>(workspace_.data() + layout_.InspectionAt()));
}

double CpuBackend::LargestDiagonal(const StateSlot& slot, int64_t d, const char* arena) {
  double largest = 0;
  for (int64_t i = 0; i < d; ++i) {
    double value = 0;
    Widen(ElementAt(arena + slot.offset, slot.dtype, KeptAt(slot.form, d, i, i)), slot.dtype, &value, 1);
    largest = std::max(largest, value);
  }
  return largest;
}

void CpuBackend::Hash(std::span<const MemorySpan> spans, uint64_t* hashes) {
  const int threads = ThreadsFor([&] { return CostOfSpans(spans); });
  executor_->ForEach(static_cast<int64_t>(spans.size()), threads, [&](int, int64_t i) {
    const MemorySpan& span = spans[static_cast<size_t>(i)];
    hashes[i] = HashBytes(span.data, static_cast<size_t>(span.elements) * SizeOf(span.dtype), 0);
  });
}

// Calls work(i, range) for each task i < count with elements(i) > 0. A large task for which divisible(i) is true is
// divided into ranges, which run in parallel. The divided tasks run one after another. Then all other tasks run in
// parallel, each with a single range.
template <typename Elements, typename Divisible, typename Work>
void CpuBackend::ForEachElementwise(size_t count, Elements&& elements, Divisible&& divisible, Work&& work) {
  const auto ranges = [&](size_t i) { return divisible(i) ? PartCount(elements(i)) : 1; };
  const auto timed = [&](size_t i, const Range& range) {
    const PhaseScope scope(nullptr, measures_ ? &times_ : nullptr, StepPhase::kElementwise);
    work(i, range);
  };
  double cost = 0;
  for (size_t i = 0; i < count; ++i) {
    const double own = static_cast<double>(kCostOfElement * elements(i));
    if (ranges(i) > 1) {
      executor_->ForEach(ranges(i), ThreadsFor([&] { return own; }),
                         [&](int, int64_t part) { timed(i, PartAt(elements(i), part)); });
    } else {
      cost += own;
    }
  }
  executor_->ForEach(static_cast<int64_t>(count), ThreadsFor([&] { return cost; }), [&](int, int64_t at) {
    const auto i = static_cast<size_t>(at);
    if (elements(i) > 0 && ranges(i) == 1) timed(i, {0, elements(i)});
  });
}

void CpuBackend::ApplyExchanged(std::span<const StepItem> items) {
  for (const StepItem& item : items) {
    if (!OwnerSkippedUpdate(item)) continue;
    *item.update_skipped = 1;
    WriteUnchanged(*item.param, item.block, *item.buffers, item.program->output);
  }
  ForEachElementwise(
      items.size(), [&](size_t i) { return *items[i].update_skipped != 0 ? 0 : items[i].block->elements; },
      [](size_t) { return true; }, [&](size_t i, const Range& range) { ApplyReceived(items[i], range); });
}

void CpuBackend::CopySlices(std::span<const SliceCopy> copies) {
  ForEachElementwise(
      copies.size(), [&](size_t i) { return copies[i].slice.elements; },
      [&](size_t i) { return IsDivisible(copies[i].slice); },
      [&](size_t i, const Range& range) { CopySlice(copies[i], range); });
}

void CpuBackend::ApplySlices(std::span<const SliceItem> slices) {
  for (const SliceItem& slice : slices) {
    if (OwnerSkippedUpdate(slice.item)) *slice.item.update_skipped = 1;
  }
  ForEachElementwise(
      slices.size(), [&](size_t i) { return slices[i].slice.elements; },
      [&](size_t i) { return IsDivisible(slices[i].slice); },
      [&](size_t i, const Range& range) { ApplySlice(slices[i], range); });
}

void CpuBackend::AgeAverages(std::span<const StepItem> items, char* arena) {
  ForEachElementwise(
      items.size(), [&](size_t i) { return items[i].block->elements; }, [](size_t) { return true; },
      [&](size_t i, const Range& range) { AgeAverage(items[i], range, arena); });
}

void CpuBackend::ExportAverages(std::span<const StepItem> items, char* arena) {
  ForEachElementwise(
      items.size(), [&](size_t i) { return items[i].block->elements; }, [](size_t) { return true; },
      [&](size_t i, const Range& range) { ExportAverage(items[i], range, arena); });
}

void CpuBackend::PassThrough(const Param& param, const Block* block, const Buffers& buffers, Output output) {
  WriteUnchanged(param, block, buffers, output);
}

void CpuBackend::Step(std::span<const StepItem> items, char* arena) {
  struct Call {
    std::span<const StepItem> items;
    StepMemory memory;
  } call{items, {arena, &layout_, workspace_.data(), &recovery_, measures_ ? &times_ : nullptr}};
  const auto step = [](void* argument, Team::Worker& worker, int64_t i) {
    const auto* const mine = static_cast<Call*>(argument);
    StepBlock(mine->items[static_cast<size_t>(i)], mine->memory, &worker);
  };
  const int threads = ThreadsFor([&] { return CostOfItems(items, executor_->slots() * kCostOfThread); });
  Team::Run(executor_.get(), static_cast<int64_t>(items.size()), std::min(layout_.item_slots, threads),
            std::min(layout_.slots, threads), step, &call,
            [this](int slot) { return blas::ScratchUse(&scratch_[static_cast<size_t>(slot)]); });
}

}  // namespace shampoo
