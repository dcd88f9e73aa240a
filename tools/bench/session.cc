// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/session.h"

#include <chrono>
#include <cstring>
#include <map>

#include "core/base/convert.h"
#include "tools/bench/fail.h"
#include "tools/bench/spectrum.h"

namespace bench {
namespace {

double ElapsedSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The precondition_frequency if Settings::period is 0: roots are computed only in steps whose numbers are multiples
// of kFrequency. For a step with roots, TimeStep sets the step counter to a number just below a multiple.
constexpr int64_t kFrequency = int64_t{1} << 20;

int64_t FrequencyOf(const Settings& settings) { return settings.period > 0 ? settings.period : kFrequency; }

void Set(shampoo_config* config, const std::string& key, const std::string& value) {
  Try(shampoo_config_set_str(config, key.c_str(), value.c_str()));
}

// Sets the keys that follow from the settings of a measurement. Omits keys that the method does not read, because
// setting them is an error.
void SetMethodKeys(const Settings& settings, shampoo_config* config) {
  for (const char* state : {"filtered_grad", "momentum"}) {
    Set(config, std::string(state) + "_dtype", settings.state_dtype);
  }
  const std::string method = shampoo_config_get(config, "method");
  const bool is_shampoo = method == "shampoo";
  if (is_shampoo) {
    Set(config, "inverse_dtype", settings.state_dtype);
    Set(config, "grafting_dtype", settings.state_dtype);
    Set(config, "refresh_growth", "0");
    Set(config, "grafting", settings.grafting);
  } else if (method != "sgd") {
    Set(config, "second_moment_dtype", settings.state_dtype);
  }
  if (!is_shampoo && method != "soap" && method != "kl_shampoo") return;
  Set(config, "factor_dtype", settings.state_dtype);
  // Without allow_stalled_moments, a moving average in 16 bits cannot have a decay near 1. Decays do not affect times.
  Set(config, "allow_stalled_moments", "true");
  Set(config, "max_preconditioner_dim", std::to_string(settings.block));
  Set(config, "precondition_frequency", std::to_string(FrequencyOf(settings)));
}

shampoo_plan* MakePlan(const Case& model, const Settings& settings) {
  shampoo_config* config = nullptr;
  Try(shampoo_config_create(&config));
  Set(config, "lr", "0.001");
  for (const auto& [key, value] : settings.keys) Set(config, key, value);
  SetMethodKeys(settings, config);
  if (settings.track_times) Set(config, "track_times", "true");

  shampoo_plan* plan = nullptr;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = settings.threads;
  if (settings.device != nullptr) plan_desc.device_type = settings.device->type();
  Try(shampoo_plan_create(&plan, config, &plan_desc));
  for (const Tensor& tensor : model.tensors) {
    shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
    param.name = tensor.name.c_str();
    param.ndim = static_cast<int32_t>(tensor.shape.size());
    for (size_t k = 0; k < tensor.shape.size(); ++k) param.shape[k] = tensor.shape[k];
    Try(shampoo_plan_add_param(plan, &param, nullptr));
  }
  Try(shampoo_plan_finish(plan));
  shampoo_config_destroy(config);
  return plan;
}

// Fills values with random numbers in [-0.01, 0.01). The generator is a fast one (xorshift), because gradients may have
// a hundred million elements.
void FillAtRandom(std::vector<float>* values) {
  uint64_t state = 88172645463325252u;
  for (float& value : *values) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    value = (static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1.0f) * 0.01f;
  }
}

}  // namespace

bool UsesSquareRoots(const Settings& settings) {
  for (const auto& [key, value] : settings.keys) {
    for (const char* const other : {"preset", "inverse_root_override", "exponent_multiplier", "root_method",
                                    "root_dtype", "root_rank_handling", "computation_dtype"}) {
      if (key == other) return false;
    }
  }
  return true;
}

Session::Session(const Case& model, const Settings& settings)
    : device_(settings.device),
      frequency_(FrequencyOf(settings)),
      plan_(MakePlan(model, settings)),
      square_roots_(UsesSquareRoots(settings)) {
  shampoo_optimizer_desc optimizer_desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  if (device_ != nullptr) {
    optimizer_desc.device_type = device_->type();
    optimizer_desc.stream = device_->stream();
  }
  Try(shampoo_optimizer_create(&optimizer_, plan_, &optimizer_desc));
  BindBuffers(model);
  FillFactors();
}

Session::~Session() {
  shampoo_optimizer_destroy(optimizer_);
  shampoo_plan_destroy(plan_);
  for (void* const memory : device_memory_) device_->Free(memory);
}

void Session::BindBuffers(const Case& model) {
  // Each parameter and each gradient starts at a multiple of 64 bytes, as in most trainers.
  const auto padded = [](const Tensor& tensor) { return static_cast<size_t>((Elements(tensor.shape) + 15) / 16 * 16); };
  size_t elements = 16;
  for (const Tensor& tensor : model.tensors) elements += padded(tensor);
  params_.assign(elements, 0.0f);
  grads_.resize(elements);
  FillAtRandom(&grads_);
  const auto first_aligned = [](std::vector<float>& values) {
    return values.data() + (64 - reinterpret_cast<uintptr_t>(values.data()) % 64) % 64 / sizeof(float);
  };
  float* param = first_aligned(params_);
  float* grad = first_aligned(grads_);
  if (device_ != nullptr) {
    const size_t bytes = (elements - 16) * sizeof(float);
    for (int i = 0; i < 2; ++i) device_memory_.push_back(device_->Allocate(bytes));
    device_->CopyTo(device_memory_[1], grad, bytes);
    param = static_cast<float*>(device_memory_[0]);
    grad = static_cast<float*>(device_memory_[1]);
    params_ = {};
    grads_ = {};
  }
  std::vector<shampoo_buffers> all;
  for (const Tensor& tensor : model.tensors) {
    shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
    buffers.param = buffers.out = param;
    buffers.grad = grad;
    all.push_back(buffers);
    param += padded(tensor);
    grad += padded(tensor);
  }
  Try(shampoo_optimizer_bind(optimizer_, 0, static_cast<int32_t>(all.size()), all.data()));
}

void Session::FillFactors() {
  std::map<int64_t, std::vector<int64_t>> entries_of;  // key: the size of the factor matrix
  int32_t dtype = SHAMPOO_F32;
  int64_t count = 0;
  Try(shampoo_state_count(optimizer_, &count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    Try(shampoo_state_describe(optimizer_, i, &entry));
    if (std::strcmp(entry.key, "group.0/step") == 0) counter_entry_ = i;
    if (std::strcmp(std::strrchr(entry.key, '/'), "/gradient_count") == 0) count_entries_.push_back(i);
    if (std::strncmp(std::strrchr(entry.key, '/'), "/factor.", 8) != 0) continue;
    entries_of[entry.shape[0]].push_back(i);
    has_factors_ = true;
    dtype = entry.dtype;
  }
  for (const auto& [n, entries] : entries_of) {
    const std::vector<float> factor = MakeFactor(n);
    std::vector<char> stored(factor.size() * shampoo::SizeOf(static_cast<shampoo::Dtype>(dtype)));
    shampoo::Narrow(factor.data(), stored.data(), static_cast<shampoo::Dtype>(dtype), n * n);
    for (const int64_t entry : entries) {
      Try(shampoo_state_write(optimizer_, entry, 0, n * n, stored.data(), stored.size(), SHAMPOO_CPU, stream()));
    }
  }
  SetStepCounter(2 * frequency_);
}

void Session::SetStepCounter(int64_t step) {
  Try(shampoo_state_write(optimizer_, counter_entry_, 0, 1, &step, sizeof step, SHAMPOO_CPU, stream()));
  // With soap and kl_shampoo, the number of a block's updates determines when its eigenbases are refreshed. By
  // default (key first_step), the first gradient makes no update, so `step` updates need step + 1 gradients.
  const int64_t gradients = step + 1;
  for (const int64_t entry : count_entries_) {
    Try(shampoo_state_write(optimizer_, entry, 0, 1, &gradients, sizeof gradients, SHAMPOO_CPU, stream()));
  }
}

void Session::Step() { Try(shampoo_optimizer_step(optimizer_, stream())); }

void Session::Wait() {
  if (device_ == nullptr) return;
  device_->Wait();
  Try(shampoo_optimizer_status(optimizer_, 1, nullptr));
}

StepTime Session::TimeNextStep() {
  StepTime time;
  Wait();  // otherwise the timed call might wait for an earlier step
  if (device_ != nullptr) device_->StartClock();
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  Step();
  time.host = ElapsedSince(start);
  time.device = device_ != nullptr ? device_->StopClock() : time.host;
  return time;
}

StepTime Session::TimeStep(bool with_roots) {
  if (with_roots) {
    SetStepCounter(2 * frequency_ - (device_ != nullptr ? 2 : 1));
    // On a device, the first step after a write of the counter waits until it has read the counter from the device.
    // Therefore this step is not timed.
    if (device_ != nullptr) Step();
  }
  Wait();
  const double roots_before = Stat("root_computed");
  const StepTime time = TimeNextStep();
  Wait();
  if ((Stat("root_computed") > roots_before) != (with_roots && has_factors_) || Stat("nonfinite_blocks") > 0) {
    Fail("the timed step skipped blocks, or computed roots that were not due, or did not compute roots that were due");
  }
  return time;
}

double Session::TimeSteps(int64_t steps) {
  Wait();
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < steps; ++i) Step();
  if (device_ != nullptr) device_->Wait();
  return ElapsedSince(start);
}

double Session::Stat(const std::string& key) const {
  double value = 0;
  Try(shampoo_optimizer_stat(optimizer_, key.c_str(), &value));
  return value;
}

Memory Session::memory() const {
  Memory memory;
  Try(shampoo_plan_bytes(plan_, 0, "state", &memory.state));
  Try(shampoo_plan_bytes(plan_, 0, "workspace", &memory.workspace));
  return memory;
}

std::vector<Dims> BlockShapes(const Case& model, const Settings& settings) {
  shampoo_plan* const plan = MakePlan(model, settings);
  int64_t count = 0;
  Try(shampoo_plan_block_count(plan, &count));
  std::vector<Dims> shapes;
  for (int64_t i = 0; i < count; ++i) {
    shampoo_block_info block = SHAMPOO_BLOCK_INFO_INIT;
    Try(shampoo_plan_block(plan, i, &block));
    shapes.emplace_back(block.shape, block.shape + block.ndim);
  }
  shampoo_plan_destroy(plan);
  return shapes;
}

bool CanTrackTimes() {
  shampoo_config* config = nullptr;
  Try(shampoo_config_create(&config));
  const bool can = shampoo_config_set_str(config, "track_times", "true") == SHAMPOO_OK;
  shampoo_config_destroy(config);
  return can;
}

}  // namespace bench
