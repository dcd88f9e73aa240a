// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/golden/replay_ranks.h"
#include "tests/golden/suites.h"

namespace shampoo::golden {
namespace {

std::string Name(const char* kind, int64_t step, size_t param) {
  return std::string(kind) + "/" + std::to_string(step) + "/" + std::to_string(param);
}

// What the case recorded as the gradients of one step; nullptr for a parameter without one.
std::vector<const void*> GradientsOfStep(const Case& recorded, const std::vector<Tensor>& params, int64_t step) {
  std::vector<const void*> gradients;
  for (size_t p = 0; p < params.size(); ++p) {
    const Tensor* gradient = recorded.data.Find(Name("grad", step, p));
    if (gradient != nullptr && (gradient->shape != params[p].shape || gradient->dtype != params[p].dtype)) {
      throw std::runtime_error(Name("grad", step, p) + " differs in shape or dtype from the parameter");
    }
    gradients.push_back(gradient == nullptr ? nullptr : gradient->bytes.data());
  }
  return gradients;
}

}  // namespace

TensorFile ReplayTrajectory(const Case& recorded, const How& how) {
  ReplayRanks optimizer(recorded.settings, recorded.data, how);
  const auto steps = recorded.settings.at("steps").get<int64_t>();
  const nlohmann::json& schedule = recorded.settings.at("lr_schedule");
  TensorFile result;
  for (int64_t t = 1; t <= steps; ++t) {
    try {
      if (!schedule.is_null()) {
        optimizer.SetLearningRates(schedule.at(static_cast<size_t>(t - 1)).get<std::vector<double>>());
      }
      optimizer.Step(GradientsOfStep(recorded, optimizer.Params(), t));
    } catch (const std::exception& error) {
      throw std::runtime_error("step " + std::to_string(t) + ": " + error.what());
    }
    for (size_t p = 0; p < optimizer.Params().size(); ++p) {
      result.tensors.emplace(Name("param", t, p), optimizer.Params()[p]);
    }
  }
  return result;
}

}  // namespace shampoo::golden
