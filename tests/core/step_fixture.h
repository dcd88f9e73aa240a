// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/cpu/host_memory.h"
#include "core/backend/cpu/slot_memory.h"
#include "core/config/option_text.h"
#include "core/plan/memory_layout.h"
#include "core/step/step_strategy.h"

namespace shampoo {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Memory that a caller provides for all states of an optimizer.
class CallerArena {
 public:
  explicit CallerArena(int64_t bytes) : pieces_(static_cast<size_t>(bytes) / sizeof(Piece) + 1) {}
  char* data() { return pieces_[0].bytes; }

 private:
  struct alignas(kStateAlignment) Piece {
    char bytes[kStateAlignment];
  };
  std::vector<Piece> pieces_;
};

// Records the notifications of an OptimizerState.
class RecordingObserver final : public StateObserver {
 public:
  Status FinishSteps() override {
    calls.emplace_back("finish");
    return finish.Copy();
  }
  void OnInitialize() override { calls.emplace_back("initialize"); }
  void OnWrite(bool step_counters) override { calls.emplace_back(step_counters ? "write counters" : "write"); }
  void OnReplace() override { calls.emplace_back("replace"); }
  void OnUnseenWrite() override { calls.emplace_back("unseen write"); }

  std::vector<std::string> calls;
  Status finish;  // the result of FinishSteps
};

inline size_t IndexOfEntry(const OptimizerState& state, const std::string& key) {
  for (size_t i = 0; i < state.entries().size(); ++i) {
    if (state.entries()[i].key == key) return i;
  }
  FAIL("there is no state ", key);
  return 0;
}

// The placement of one of several replicas.
inline Placement ReplicaPlacement(int rank, int world) {
  Placement placement;
  placement.replica_rank = rank;
  placement.replica_world = world;
  return placement;
}

// Keys of a config as option text, such as "lr=0.5 grafting=none".
struct OptionKeys {
  OptionKeys() = default;
  OptionKeys(const char* option_text) : text(option_text) {}
  OptionKeys(std::string option_text) : text(std::move(option_text)) {}
  bool empty() const { return text.empty(); }
  friend OptionKeys operator+(const OptionKeys& first, const OptionKeys& more) { return first.text + " " + more.text; }

  std::string text;
};

// The plan, state, buffers and history of an optimizer on one rank. Tests construct objects of core/step from these
// parts. At first, all elements of parameters and gradients are 1, in float32.
class StepFixture {
 public:
  struct Setup {
    OptionKeys keys;
    std::vector<ParamDesc> params;
    std::vector<OptionKeys> more_groups = {};
    Placement placement = {};
    // With shard_mode=gather: the descriptions of the same parameters on shard rank 1.
    std::vector<ParamDesc> params_of_shard_1 = {};
  };

  explicit StepFixture(const Setup& setup) : plan_(MakePlan(setup)) {
    std::unique_ptr<CpuBackend> backend;
    Ok(CpuBackend::Create(*plan_, {}, {}, &backend));
    backend_ = std::move(backend);
    std::unique_ptr<StateMemory> memory;
    Ok(HostMemory::Create(*plan_, {}, nullptr, backend_, &memory));
    state_ = std::make_unique<OptimizerState>(*plan_, std::move(memory), 1);
    state_pointer_ = state_.get();
    state_->Observe(&observer);
    Ok(state_->Initialize());
    observer.calls.clear();
    buffers_ = std::make_unique<BoundBuffers>(*plan_);
    history_ = std::make_unique<StepHistory>(*plan_);
    for (const Param& param : plan_->params) {
      params.emplace_back(static_cast<size_t>(param.elements), 1.0F);
      gradients.emplace_back(static_cast<size_t>(param.elements), 1.0F);
    }
    for (size_t p = 0; p < params.size(); ++p) {
      if (plan_->params[p].desc.out_dtype == Dtype::kF32) Bind(p, gradients[p].data());
    }
  }

  StepFixture(const OptionKeys& keys, const std::vector<std::vector<int64_t>>& shapes, Placement placement = {})
      : StepFixture(Setup{.keys = keys, .params = Describe(shapes), .placement = placement}) {}

  // Returns descriptions of parameters "p0", "p1", ... of these shapes.
  static std::vector<ParamDesc> Describe(const std::vector<std::vector<int64_t>>& shapes) {
    std::vector<ParamDesc> params(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      params[i].name = "p" + std::to_string(i);
      params[i].shape = Shape::Of(shapes[i]);
    }
    return params;
  }

  // Returns a setup of two groups. The last parameter is in the second group.
  static Setup TwoGroups(const OptionKeys& first, const OptionKeys& second,
                         const std::vector<std::vector<int64_t>>& shapes, Placement placement = {}) {
    Setup setup{.keys = first, .params = Describe(shapes), .more_groups = {second}, .placement = placement};
    setup.params.back().group = 1;
    return setup;
  }

  StepInputs inputs() { return {*plan_, *state_, *buffers_, *history_}; }
  const PlanData& plan() const { return *plan_; }
  std::shared_ptr<const PlanData> shared_plan() const { return plan_; }
  OptimizerState& state() { return *state_; }
  std::span<OptimizerState* const> states() const { return {&state_pointer_, 1}; }
  StepHistory& history() { return *history_; }
  std::shared_ptr<CpuBackend> backend() const { return backend_; }
  // Binds the buffers of a parameter that is updated in place.
  void Bind(size_t param, const float* gradient) { Bind(param, gradient, params[param].data()); }
  void Bind(size_t param, const float* gradient, float* out, float* copy = nullptr) {
    const Buffers buffers{params[param].data(), gradient, out, copy};
    Ok(buffers_->Bind(static_cast<int>(param), {&buffers, 1}));
  }
  // Changes a hyper-parameter of group 0.
  void Set(const char* key, double value) {
    bool roots_depend_on_it = false;
    Ok(state_->hyper_parameters().Set(0, key, value, &roots_depend_on_it));
  }

  int64_t steps(size_t group = 0) const {
    int64_t steps = 0;
    Ok(state_->ReadSteps(group, &steps));
    return steps;
  }
  const StateEntry& EntryOf(const std::string& key) const { return state_->entries()[IndexOfEntry(*state_, key)]; }
  // Returns the elements of a float32 state in the arena that steps write.
  float* StateOf(const std::string& key) { return reinterpret_cast<float*>(state_->out() + EntryOf(key).arena_offset); }
  // Returns the bytes of all states in the arena that steps write.
  std::vector<char> States() const {
    std::vector<char> bytes;
    for (const StateEntry& entry : state_->entries()) {
      const char* const first = state_->out() + entry.arena_offset;
      bytes.insert(bytes.end(), first, first + entry.span_bytes());
    }
    return bytes;
  }

  // Creates a plan, with one thread unless the placement sets the number of threads.
  static Status CreatePlan(const Setup& setup, std::unique_ptr<Plan>* plan) {
    Placement placement = setup.placement;
    if (placement.threads == 0) placement.threads = 1;
    SHAMPOO_RETURN_IF_ERROR(Plan::Create(MakeConfig(setup.keys), placement, CpuWorkspaceBytes, plan));
    int index = 0;
    for (const OptionKeys& keys : setup.more_groups) {
      SHAMPOO_RETURN_IF_ERROR((*plan)->AddGroup(MakeConfig(keys), &index));
    }
    for (const ParamDesc& desc : setup.params) {
      SHAMPOO_RETURN_IF_ERROR((*plan)->AddParam(desc, &index));
      if (setup.params_of_shard_1.empty()) continue;
      SHAMPOO_RETURN_IF_ERROR((*plan)->AddShard(index, 1, setup.params_of_shard_1[static_cast<size_t>(index)]));
    }
    return (*plan)->Finish();
  }
  static std::shared_ptr<const PlanData> MakePlan(const Setup& setup) {
    std::unique_ptr<Plan> plan;
    Ok(CreatePlan(setup, &plan));
    return plan->data();
  }
  static Config MakeConfig(const OptionKeys& keys) {
    Config config;
    Ok(SetFromOptionText(keys.text.c_str(), &config));
    return config;
  }
  static void Ok(const Status& status) { REQUIRE_MESSAGE(status.ok(), status.message()); }

  RecordingObserver observer;
  std::vector<std::vector<float>> params;
  std::vector<std::vector<float>> gradients;

 private:
  std::shared_ptr<const PlanData> plan_;
  std::shared_ptr<CpuBackend> backend_;
  std::unique_ptr<OptimizerState> state_;
  OptimizerState* state_pointer_;  // for states()
  std::unique_ptr<BoundBuffers> buffers_;
  std::unique_ptr<StepHistory> history_;
};

// Keys for plain gradient descent: parameter - lr * gradient. With refresh_growth=0, preconditioning starts at step
// precondition_frequency.
inline const OptionKeys kPlainDescent =
    "lr=0.5 beta1=0 grafting=none refresh_growth=0 precondition_frequency=1000 use_merge_dims=false";

// Keys of a plan in which each block is gathered at its owner.
inline const OptionKeys kGather = "shard_mode=gather";

}  // namespace shampoo
