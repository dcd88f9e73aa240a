// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/golden/safetensors.h"

namespace shampoo::golden {

// The optimizer that a case describes ("shapes", "param_dtype", "groups"), with the parameters it moves, which start as
// the case's init/<p> and are updated in place. Every failure is a std::runtime_error with the library's message.
class ReplayOptimizer {
 public:
  // threads: 0 leaves the number to the library. Gradients are expected in the dtype of the parameters.
  ReplayOptimizer(const nlohmann::json& settings, const TensorFile& data, int32_t threads);
  ~ReplayOptimizer();
  ReplayOptimizer(const ReplayOptimizer&) = delete;
  ReplayOptimizer& operator=(const ReplayOptimizer&) = delete;

  // One learning rate per group, in the order of "groups".
  void SetLearningRates(const std::vector<double>& rates);

  // One step; gradients[p] holds gradient p, or is nullptr where the parameter has none.
  void Step(const std::vector<const void*>& gradients);

  const std::vector<Tensor>& Params() const { return params_; }

 private:
  void Build(const nlohmann::json& settings, int32_t threads);
  void AddParams(const nlohmann::json& settings);

  std::vector<Tensor> params_;
  std::vector<int32_t> group_ids_;
  shampoo_plan* plan_ = nullptr;
  shampoo_optimizer* optimizer_ = nullptr;
};

}  // namespace shampoo::golden
