// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/cpu/host_memory.h"
#include "core/backend/cpu/slot_memory.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// The parts of an optimizer on one rank, from which the classes of core/step can be built alone. Parameters and
// gradients are float32 and made of ones.
class StepFixture {
 public:
  using Keys = std::vector<std::pair<std::string, std::string>>;

  StepFixture(const Keys& keys, const std::vector<std::vector<int64_t>>& shapes, Placement placement = {}) {
    placement.threads = 1;
    Config config;
    for (const auto& [key, value] : keys) REQUIRE(config.SetText(key.c_str(), value.c_str()).ok());
    std::unique_ptr<Plan> plan;
    Ok(Plan::Create(config, placement, CpuWorkspaceBytes, &plan));
    for (size_t i = 0; i < shapes.size(); ++i) {
      ParamDesc desc;
      desc.name = "p" + std::to_string(i);
      desc.shape = Shape::Of(shapes[i]);
      int index = 0;
      Ok(plan->AddParam(desc, &index));
    }
    Ok(plan->Finish());
    plan_ = plan->data();
    std::unique_ptr<CpuBackend> backend;
    Ok(CpuBackend::Create(*plan_, {}, {}, &backend));
    backend_ = std::move(backend);
    std::unique_ptr<StateMemory> memory;
    Ok(HostMemory::Create(*plan_, {}, nullptr, backend_, &memory));
    state_ = std::make_unique<OptimizerState>(*plan_, std::move(memory), 1);
    state_->Observe(&observer_);
    Ok(state_->Initialize());
    buffers_ = std::make_unique<BoundBuffers>(*plan_);
    history_ = std::make_unique<StepHistory>(*plan_);
    for (const Param& param : plan_->params) {
      params.emplace_back(static_cast<size_t>(param.elements), 1.0F);
      gradients.emplace_back(static_cast<size_t>(param.elements), 1.0F);
    }
    for (size_t p = 0; p < params.size(); ++p) Bind(p, gradients[p].data());
  }

  StepInputs inputs() { return {*plan_, *state_, *buffers_, *history_}; }
  const PlanData& plan() const { return *plan_; }
  OptimizerState& state() { return *state_; }
  StepHistory& history() { return *history_; }
  std::shared_ptr<CpuBackend> backend() const { return backend_; }
  void Bind(size_t param, const float* gradient) {
    const Buffers buffers{params[param].data(), gradient, params[param].data(), nullptr};
    Ok(buffers_->Bind(static_cast<int>(param), {&buffers, 1}));
  }

  static void Ok(const Status& status) { REQUIRE_MESSAGE(status.ok(), status.message()); }

  std::vector<std::vector<float>> params;
  std::vector<std::vector<float>> gradients;

 private:
  class NoObserver final : public StateObserver {
   public:
    Status FinishSteps() override { return {}; }
    void OnInitialize() override {}
    void OnWrite(bool /*step_counters*/) override {}
    void OnReplace() override {}
    void OnUnseenWrite() override {}
  };

  std::shared_ptr<const PlanData> plan_;
  std::shared_ptr<CpuBackend> backend_;
  NoObserver observer_;
  std::unique_ptr<OptimizerState> state_;
  std::unique_ptr<BoundBuffers> buffers_;
  std::unique_ptr<StepHistory> history_;
};

}  // namespace shampoo
