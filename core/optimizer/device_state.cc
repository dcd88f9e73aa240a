// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The state, wherever it lies: read, written, set back.
#include <algorithm>
#include <utility>

#include "core/optimizer/device_staging.h"
#include "core/optimizer/on_device.h"
#include "core/optimizer/optimizer.h"
#include "core/optimizer/state_access.h"
#include "core/plan/memory_layout.h"

namespace shampoo {

Status StateAccess::Read(const Optimizer& optimizer, const StateEntry& entry, const char** memory) {
  if (!optimizer.on_device()) {
    *memory = optimizer.arena() + entry.arena_offset;
    return {};
  }
  copy_.resize(static_cast<size_t>(entry.span_bytes()));
  *memory = copy_.data();
  return optimizer.FetchState(entry.arena_offset, entry.span_bytes(), copy_.data());
}

Status StateAccess::Change(Optimizer* optimizer, const StateEntry& entry, char** memory) {
  optimizer_ = nullptr;
  if (!optimizer->on_device()) {
    *memory = optimizer->ArenaToWrite() + entry.arena_offset;
    return {};
  }
  const char* read = nullptr;
  SHAMPOO_RETURN_IF_ERROR(Read(*optimizer, entry, &read));
  *memory = copy_.data();
  optimizer_ = optimizer;
  entry_ = &entry;
  return {};
}

Status StateAccess::Finish() {
  Optimizer* const optimizer = std::exchange(optimizer_, nullptr);
  return optimizer == nullptr ? Status()
                              : optimizer->PutState(entry_->arena_offset, entry_->span_bytes(), copy_.data());
}

Status Optimizer::FetchState(int64_t offset, int64_t bytes, char* to) const {
  if (device_) return device_->engine->Download(to, state_out_ + offset, bytes, device_->stream);
  std::copy_n(state_out_ + offset, bytes, to);
  return {};
}

Status Optimizer::PutState(int64_t offset, int64_t bytes, const char* from) {
  char* const to = ArenaToWrite() + offset;
  if (!device_) {
    std::copy_n(from, bytes, to);
    return {};
  }
  device_->StateChanges(offset < CounterBytes(static_cast<int64_t>(groups_.size())));
  return device_->engine->Upload(to, from, bytes, device_->stream);
}

std::unique_ptr<Staging> Optimizer::MakeStaging(void* stream) const {
  if (!device_) return nullptr;
  return std::make_unique<DeviceStaging>(device_->engine.get(), stream);
}

Status Optimizer::UseState(void* stream) {
  if (!device_) return {};
  device_->stream = stream;
  return Settle();
}

Status Optimizer::CheckMemoryType(DeviceType memory) const {
  if (memory == DeviceType::kCpu || (device_ && memory == DeviceType::kCuda)) return {};
  return Unsupported("the device type of the buffer is ", static_cast<int32_t>(memory), ": expected SHAMPOO_CPU (1)",
                     device_ ? " or SHAMPOO_CUDA (2)" : ", as the optimizer is on the CPU");
}

Status Optimizer::ReadState(int64_t index, int64_t first, int64_t count, void* to, size_t to_bytes, DeviceType memory,
                            void* stream) {
  const StateEntry* entry = nullptr;
  SHAMPOO_RETURN_IF_ERROR(EntryAt(index, &entry));
  if (!device_) return ReadEntry(*entry, state_out_ + entry->arena_offset, first, count, to, to_bytes);
  SHAMPOO_RETURN_IF_ERROR(CheckElements(*entry, first, count, "dst", to_bytes));
  SHAMPOO_RETURN_IF_ERROR(UseState(stream));
  StateAccess access;
  const char* state = nullptr;
  SHAMPOO_RETURN_IF_ERROR(access.Read(*this, *entry, &state));
  if (memory == DeviceType::kCpu) return ReadEntry(*entry, state, first, count, to, to_bytes);
  std::vector<char> elements(static_cast<size_t>(count) * SizeOf(entry->dtype));
  SHAMPOO_RETURN_IF_ERROR(ReadEntry(*entry, state, first, count, elements.data(), elements.size()));
  return device_->engine->Upload(to, elements.data(), static_cast<int64_t>(elements.size()), stream);
}

Status Optimizer::WriteState(int64_t index, int64_t first, int64_t count, const void* from, size_t from_bytes,
                             DeviceType memory, void* stream) {
  const StateEntry* entry = nullptr;
  SHAMPOO_RETURN_IF_ERROR(EntryAt(index, &entry));
  if (!device_) return WriteEntry(*entry, ArenaToWrite() + entry->arena_offset, first, count, from, from_bytes);
  SHAMPOO_RETURN_IF_ERROR(CheckElements(*entry, first, count, "src", from_bytes));
  SHAMPOO_RETURN_IF_ERROR(UseState(stream));
  std::vector<char> elements;
  if (memory == DeviceType::kCuda) {
    elements.resize(static_cast<size_t>(count) * SizeOf(entry->dtype));
    SHAMPOO_RETURN_IF_ERROR(
        device_->engine->Download(elements.data(), from, static_cast<int64_t>(elements.size()), stream));
    from = elements.data();
    from_bytes = elements.size();
  }
  StateAccess access;
  char* state = nullptr;
  SHAMPOO_RETURN_IF_ERROR(access.Change(this, *entry, &state));
  SHAMPOO_RETURN_IF_ERROR(WriteEntry(*entry, state, first, count, from, from_bytes));
  return access.Finish();
}

Status Optimizer::FetchSteps() {
  if (!device_) return {};
  saved_steps_.resize(groups_.size());
  return FetchState(0, static_cast<int64_t>(groups_.size() * sizeof(int64_t)),
                    reinterpret_cast<char*>(saved_steps_.data()));
}

Status Optimizer::SetSteps(int group, int64_t steps) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof steps);
  return PutState(group * kBytes, kBytes, reinterpret_cast<const char*>(&steps));
}

Status Optimizer::InitializeState() {
  if (device_) {
    SHAMPOO_RETURN_IF_ERROR(device_->engine->Initialize(state_out_, -1, device_->stream));
    std::fill(device_->counters.begin(), device_->counters.end(), 0);
    std::fill(device_->snapshot_steps.begin(), device_->snapshot_steps.end(), 0);
    device_->counters_of = state_out_;
    device_->ForgetAhead();
  } else {
    std::fill_n(state_out_, CounterBytes(static_cast<int64_t>(groups_.size())), char{0});
    backend_->InitializeState(*plan_, state_out_);
  }
  is_initial_ = owns_state_;  // a host may change its own memory unseen
  return {};
}

Status Optimizer::InitializeFactors(const Block& block) {
  if (device_) {
    device_->StateChanges(false);
    return device_->engine->Initialize(state_out_, &block - plan_->blocks.data(), device_->stream);
  }
  backend_->InitializeFactors(block, SettingsOf(block.group).initial_inverse, state_out_);
  return {};
}

}  // namespace shampoo
