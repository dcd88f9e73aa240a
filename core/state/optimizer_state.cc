// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/state/optimizer_state.h"

#include <utility>

#include "core/base/memory_range.h"
#include "core/base/text.h"
#include "core/plan/memory_layout.h"

namespace shampoo {

OptimizerState::OptimizerState(const PlanData& plan, std::unique_ptr<StateMemory> memory, size_t scalar_alignment)
    : plan_(plan),
      memory_(std::move(memory)),
      hyper_parameters_(plan, scalar_alignment),
      entries_(ListEntries(plan)),
      in_(memory_->arena()),
      out_(memory_->arena()) {}

Status OptimizerState::Bind(const void* in, void* out) {
  if ((in == nullptr) != (out == nullptr)) {
    return Invalid(in == nullptr ? "state_in" : "state_out", " is NULL, but ", in == nullptr ? "state_out" : "state_in",
                   " is not: expected two arenas, or NULL for both to use the arena with which the optimizer was "
                   "created");
  }
  if (in == nullptr) {
    observer_->OnUnseenWrite();
    is_initial_ = is_initial_ && out_ == memory_->arena();
    in_ = out_ = memory_->arena();
    return {};
  }
  for (const void* state : {in, static_cast<const void*>(out)}) {
    if (reinterpret_cast<uintptr_t>(state) % kStateAlignment != 0) {
      return Invalid(state == in ? "state_in" : "state_out",
                     " is not aligned: expected an address that is a multiple of ", kStateAlignment);
    }
  }
  const int64_t bytes = plan_.state_bytes();
  if (in != out && MemoryRange{in, bytes}.Overlaps({out, bytes})) {
    return Invalid(
        "state_in and state_out overlap: expected the same arena, or two arenas that do not overlap; an arena has ",
        bytes, " bytes, which shampoo_plan_bytes reports as \"state\"");
  }
  is_initial_ = false;
  in_ = static_cast<const char*>(in);
  out_ = static_cast<char*>(out);
  return {};
}

Status OptimizerState::FinishSteps(void* stream) {
  memory_->UseStream(stream);
  return observer_->FinishSteps();
}

Status OptimizerState::View(const StateEntry& entry, std::vector<char>* copy, const char** memory) const {
  char* mapped = nullptr;
  SHAMPOO_RETURN_IF_ERROR(memory_->Map(out_ + entry.arena_offset, entry.span_bytes(), copy, &mapped));
  *memory = mapped;
  return {};
}

Status OptimizerState::Download(int64_t offset, int64_t bytes, char* to) const {
  return memory_->Download(to, out_ + offset, bytes);
}

Status OptimizerState::Upload(int64_t offset, int64_t bytes, const char* from) {
  is_initial_ = false;
  observer_->OnWrite(offset < CounterBytes(static_cast<int64_t>(plan_.groups.size())));
  return memory_->Upload(out_ + offset, from, bytes);
}

Status OptimizerState::ReadSteps(size_t group, int64_t* steps) const {
  return Download(static_cast<int64_t>(group * sizeof *steps), sizeof *steps, reinterpret_cast<char*>(steps));
}

Status OptimizerState::WriteSteps(size_t group, int64_t steps) {
  return Upload(static_cast<int64_t>(group * sizeof steps), sizeof steps, reinterpret_cast<const char*>(&steps));
}

Status OptimizerState::Initialize() {
  SHAMPOO_RETURN_IF_ERROR(memory_->Initialize(out_));
  observer_->OnInitialize();
  is_initial_ = memory_->allocated_arena();  // a caller may write its own memory without calling the library
  return {};
}

Status OptimizerState::InitializeFactors(const Block& block) {
  observer_->OnWrite(false);
  const Settings& settings = hyper_parameters_.settings(static_cast<size_t>(block.group));
  return memory_->InitializeFactors(block, settings, out_);
}

Status OptimizerState::CheckUsable(const char* arena) const {
  return unusable_reason_.empty() || arena != unusable_arena_ ? Status() : WrongState(unusable_reason_);
}

void OptimizerState::MarkUnusable(std::string reason) {
  unusable_reason_ = std::move(reason);
  unusable_arena_ = out_;
}

void OptimizerState::MarkReplaced() {
  is_initial_ = false;
  unusable_reason_.clear();
  observer_->OnReplace();
}

void OptimizerState::MarkStepped(const char* in, const char* out) {
  is_initial_ = false;
  if (in != out && out == unusable_arena_) unusable_reason_.clear();
}

}  // namespace shampoo
