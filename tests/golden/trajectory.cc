// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/step_checkpoints.h"

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

TensorFile ParamsAfter(int64_t step, const ReplayRanks& optimizer) {
  TensorFile params;
  for (size_t p = 0; p < optimizer.Params().size(); ++p) {
    params.tensors.emplace(Name("param", step, p), optimizer.Params()[p]);
  }
  return params;
}

// One case, by one optimizer or, where it is resumed, by several.
class Trajectory {
 public:
  Trajectory(const Case& recorded, const How& how)
      : recorded_(recorded), how_(how), steps_(recorded.settings.at("steps").get<int64_t>()) {}

  TensorFile Run() {
    if (how_.resume_from.empty()) {
      ReplayRanks optimizer(recorded_.settings, recorded_.data, how_);
      Steps(1, true, &optimizer);
      return std::move(result_);
    }
    const StepCheckpoints from(how_.resume_from, recorded_);
    for (int64_t t = 1; t < steps_; ++t) Take(from.Params(t));
    for (int64_t t = 1; t < steps_; ++t) ResumeAfter(t, from);
    return std::move(result_);
  }

 private:
  // As a process does that begins with what the one before it has left.
  void ResumeAfter(int64_t t, const StepCheckpoints& from) {
    TensorFile start = from.Params(t);
    for (size_t p = 0; start.Find(Name("param", t, p)) != nullptr; ++p) {
      start.tensors.emplace("init/" + std::to_string(p), start.At(Name("param", t, p)));
    }
    try {
      ReplayRanks optimizer(recorded_.settings, start, how_);
      from.Load(t, &optimizer);
      // The first of the resumed runs has all further checkpoints to leave; this one before a step of its own.
      if (t == 1) SaveAfter(t, &optimizer);
      Steps(t + 1, t == 1, &optimizer);
    } catch (const std::exception& error) {
      throw std::runtime_error("resumed after step " + std::to_string(t) + ": " + error.what());
    }
  }

  void Steps(int64_t first, bool saves, ReplayRanks* optimizer) {
    const nlohmann::json& schedule = recorded_.settings.at("lr_schedule");
    for (int64_t t = first; t <= steps_; ++t) {
      try {
        if (!schedule.is_null()) {
          optimizer->SetLearningRates(schedule.at(static_cast<size_t>(t - 1)).get<std::vector<double>>());
        }
        optimizer->Step(GradientsOfStep(recorded_, optimizer->Params(), t));
        Take(ParamsAfter(t, *optimizer));
        if (saves) SaveAfter(t, optimizer);
      } catch (const std::exception& error) {
        throw std::runtime_error("step " + std::to_string(t) + ": " + error.what());
      }
    }
  }

  void SaveAfter(int64_t t, ReplayRanks* optimizer) const {
    if (how_.save_every.empty() || t == steps_) return;
    const bool is_first = how_.process == nullptr || how_.process->rank == 0;
    StepCheckpoints(how_.save_every, recorded_).Save(t, ParamsAfter(t, *optimizer), is_first, optimizer);
  }

  // Every run that comes by a step has the same parameters after it.
  void Take(const TensorFile& params) {
    for (const auto& [name, tensor] : params.tensors) {
      if (how_.resume_across) {
        Append(name, tensor);
        continue;
      }
      const auto [known, is_new] = result_.tensors.emplace(name, tensor);
      if (!is_new && known->second.bytes != tensor.bytes) {
        throw std::runtime_error(name + " has other bits than in the run that was not resumed");
      }
    }
  }

  // Those of two devices have not: all are judged.
  void Append(const std::string& name, const Tensor& tensor) {
    const auto [known, is_new] = result_.tensors.emplace(name, Tensor{tensor.dtype, tensor.shape, {}});
    Tensor& all = known->second;
    if (is_new) all.shape.insert(all.shape.begin(), 0);
    all.bytes.insert(all.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
    ++all.shape[0];
  }

  const Case& recorded_;
  const How& how_;
  const int64_t steps_;
  TensorFile result_;
};

}  // namespace

TensorFile ReplayTrajectory(const Case& recorded, const How& how) { return Trajectory(recorded, how).Run(); }

}  // namespace shampoo::golden
