// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/step_fixture.h"

namespace shampoo {

// Fake device memory, which the host can access only by copies. Counts the copies, or rejects them if `fails` is true.
class RemoteMemory final : public StateMemory {
 public:
  explicit RemoteMemory(int64_t bytes) : arena_(bytes) {}

  char* arena() const override { return arena_.data(); }
  bool allocated_arena() const override { return true; }
  void UseStream(void* stream) override { last_stream = stream; }
  Status CheckStream(const void* /*stream*/) const override { return {}; }
  Status CheckBuffer(const char* /*name*/, DeviceType /*buffer*/) const override { return {}; }
  Status CheckReadable(const std::string& /*what*/) const override { return {}; }
  Status Initialize(char* arena) override {
    std::memset(arena, 0, 1);
    return {};
  }
  Status InitializeFactors(const Block& /*block*/, const Settings& /*settings*/, char* /*arena*/) override {
    return {};
  }
  Status Download(void* to, const void* from, int64_t bytes) const override { return Copy(to, from, bytes); }
  Status Upload(void* to, const void* from, int64_t bytes) const override { return Copy(to, from, bytes); }
  Status Map(char* from, int64_t bytes, std::vector<char>* copy, char** mapped) const override {
    copy->resize(static_cast<size_t>(bytes));
    *mapped = copy->data();
    return Copy(copy->data(), from, bytes);
  }
  std::unique_ptr<Staging> MakeStaging(void* /*stream*/) const override { return nullptr; }

  void* last_stream = nullptr;
  bool fails = false;
  mutable int copies = 0;

 private:
  Status Copy(void* to, const void* from, int64_t bytes) const {
    if (fails) return Internal("the copy failed");
    ++copies;
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return {};
  }

  mutable CallerArena arena_;
};

// The state of an optimizer in RemoteMemory.
struct RemoteState {
  explicit RemoteState(const PlanData& plan) {
    auto made = std::make_unique<RemoteMemory>(plan.state_bytes());
    memory = made.get();
    state = std::make_unique<OptimizerState>(plan, std::move(made), sizeof(double));
    state->Observe(&observer);
  }

  RecordingObserver observer;
  RemoteMemory* memory;
  std::unique_ptr<OptimizerState> state;
};

}  // namespace shampoo
