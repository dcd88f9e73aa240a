// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/perturb.h"
#include "tests/golden/step_checkpoints.h"

namespace shampoo::golden {
namespace {

std::string Name(const char* kind, int64_t step, size_t param) {
  return std::string(kind) + "/" + std::to_string(step) + "/" + std::to_string(param);
}

// Returns the recorded gradient of each parameter in a step, or nullptr for a parameter without a recorded gradient.
std::vector<const Tensor*> GradientsOfStep(const Case& recorded, const std::vector<Tensor>& params, int64_t step) {
  std::vector<const Tensor*> gradients;
  for (size_t p = 0; p < params.size(); ++p) {
    const Tensor* gradient = recorded.data.Find(Name("grad", step, p));
    if (gradient != nullptr && (gradient->shape != params[p].shape || gradient->dtype != params[p].dtype)) {
      throw std::runtime_error(Name("grad", step, p) + " differs in shape or dtype from the parameter");
    }
    gradients.push_back(gradient);
  }
  return gradients;
}

// Returns the weights for evaluation after a step, as tensors named eval/<step>/<p>. Returns no tensors if the case has
// no such weights.
TensorFile WeightsAfter(const Case& recorded, int64_t step, ReplayRanks* optimizer) {
  TensorFile weights;
  if (recorded.data.Find(Name("eval", step, 0)) == nullptr) return weights;
  const auto ema = recorded.settings.find("weight_ema");
  const bool blends = ema != recorded.settings.end() && !ema->is_null();
  const std::vector<Tensor> exported = optimizer->Export(blends ? ema->at("blend").get<double>() : 1);
  for (size_t p = 0; p < exported.size(); ++p) weights.tensors.emplace(Name("eval", step, p), exported[p]);
  return weights;
}

TensorFile ParamsAfter(int64_t step, const ReplayRanks& optimizer) {
  TensorFile params;
  for (size_t p = 0; p < optimizer.Params().size(); ++p) {
    params.tensors.emplace(Name("param", step, p), optimizer.Params()[p]);
  }
  return params;
}

// Replays a case with one optimizer or, with resume_from, with one optimizer for each checkpoint.
class Trajectory {
 public:
  Trajectory(const Case& recorded, const ReplayOptions& options)
      : recorded_(recorded), options_(options), steps_(recorded.settings.at("steps").get<int64_t>()) {}

  TensorFile Run() {
    if (options_.resume_from.empty()) {
      ReplayRanks optimizer(recorded_.settings, recorded_.data, options_);
      Steps(1, true, &optimizer);
      return std::move(result_);
    }
    const StepCheckpoints from(options_.resume_from, recorded_);
    for (int64_t t = 1; t < steps_; ++t) Take(from.Params(t));
    for (int64_t t = 1; t < steps_; ++t) ResumeAfter(t, from);
    return std::move(result_);
  }

 private:
  // Resumes after step t, from a checkpoint that another process has saved.
  void ResumeAfter(int64_t t, const StepCheckpoints& from) {
    TensorFile start = from.Params(t);
    for (size_t p = 0; start.Find(Name("param", t, p)) != nullptr; ++p) {
      start.tensors.emplace("init/" + std::to_string(p), start.At(Name("param", t, p)));
    }
    try {
      ReplayRanks optimizer(recorded_.settings, start, options_);
      from.Load(t, &optimizer);
      // With save_every, only the first of the resumed runs saves checkpoints: one before its first step, and one after
      // each of its steps except the last.
      if (t == 1) SaveAfter(t, &optimizer);
      Steps(t + 1, t == 1, &optimizer);
    } catch (const std::exception& error) {
      throw std::runtime_error("resumed after step " + std::to_string(t) + ": " + error.what());
    }
  }

  // Sets each key that has a schedule in the case. A schedule has, for each step, one value for each group.
  void FollowSchedules(int64_t t, ReplayRanks* optimizer) const {
    for (const char* const key : {"lr", "beta1", "weight_decay"}) {
      const auto schedule = recorded_.settings.find(std::string(key) + "_schedule");
      if (schedule == recorded_.settings.end() || schedule->is_null()) continue;
      optimizer->SetInGroups(key, schedule->at(static_cast<size_t>(t - 1)).get<std::vector<double>>());
    }
  }

  void Steps(int64_t first, bool saves, ReplayRanks* optimizer) {
    for (int64_t t = first; t <= steps_; ++t) {
      try {
        FollowSchedules(t, optimizer);
        Step(GradientsOfStep(recorded_, optimizer->Params(), t), optimizer);
        Take(ParamsAfter(t, *optimizer));
        Take(WeightsAfter(recorded_, t, optimizer));
        if (saves) SaveAfter(t, optimizer);
      } catch (const std::exception& error) {
        throw std::runtime_error("step " + std::to_string(t) + ": " + error.what());
      }
    }
  }

  // Makes a step with the gradients. If options_.perturb is not 0, perturbs the gradients and the factor matrices
  // first.
  void Step(const std::vector<const Tensor*>& gradients, ReplayRanks* optimizer) {
    std::vector<Tensor> perturbed;
    perturbed.reserve(gradients.size());
    std::vector<const void*> data;
    for (const Tensor* gradient : gradients) {
      if (gradient != nullptr && options_.perturb != 0) {
        perturbed.push_back(*gradient);
        PerturbElements(&perturbed.back(), &random_);
        gradient = &perturbed.back();
      }
      data.push_back(gradient == nullptr ? nullptr : gradient->bytes.data());
    }
    if (options_.perturb != 0) optimizer->PerturbFactors(&random_);
    optimizer->Step(data);
  }

  void SaveAfter(int64_t t, ReplayRanks* optimizer) const {
    if (options_.save_every.empty() || t == steps_) return;
    const bool is_first = options_.process == nullptr || options_.process->rank == 0;
    TensorFile saved = ParamsAfter(t, *optimizer);
    saved.tensors.merge(WeightsAfter(recorded_, t, optimizer).tensors);
    StepCheckpoints(options_.save_every, recorded_).Save(t, saved, is_first, optimizer);
  }

  // Adds tensors of one step to the result: parameters or weights for evaluation. With resume_across (checkpoints from
  // another device), the result keeps the tensors of every run. Otherwise, throws if the result already has a tensor of
  // the same name with other bytes.
  void Take(const TensorFile& params) {
    for (const auto& [name, tensor] : params.tensors) {
      if (options_.resume_across) {
        Append(name, tensor);
        continue;
      }
      const auto [known, is_new] = result_.tensors.emplace(name, tensor);
      if (!is_new && known->second.bytes != tensor.bytes) {
        throw std::runtime_error(name + " is not bit-identical in all runs");
      }
    }
  }

  // Appends the tensor of one run along an additional first dim. Runs on two devices are not bit-identical, so the
  // results of all runs are kept.
  void Append(const std::string& name, const Tensor& tensor) {
    const auto [known, is_new] = result_.tensors.emplace(name, Tensor{tensor.dtype, tensor.shape, {}});
    Tensor& all = known->second;
    if (is_new) all.shape.insert(all.shape.begin(), 0);
    all.bytes.insert(all.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
    ++all.shape[0];
  }

  const Case& recorded_;
  const ReplayOptions& options_;
  const int64_t steps_;
  std::mt19937_64 random_{options_.perturb};
  TensorFile result_;
};

}  // namespace

TensorFile ReplayTrajectory(const Case& recorded, const ReplayOptions& options) {
  return Trajectory(recorded, options).Run();
}

}  // namespace shampoo::golden
