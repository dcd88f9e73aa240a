// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/tools/device_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "core/base/convert.h"
#include "core/base/text.h"
#include "tests/cuda/fake/control.h"
#include "tests/preset.h"

namespace shampoo_test {
namespace {

using shampoo::Dtype;

size_t BytesOf(int32_t dtype) { return shampoo::SizeOf(static_cast<Dtype>(dtype)); }

// The elements [first, first + count) of a flattened parameter.
struct FlatRange {
  int64_t first, count;
};
FlatRange FlatRangeOf(const ModelSpec& spec, const ParamSpec& param) {
  int64_t elements = 1;
  for (const int64_t d : param.shape) elements *= d;
  if (spec.shard_ops == nullptr) return {0, elements};
  const int64_t per_rank = (elements + spec.shard_ops->world - 1) / spec.shard_ops->world;
  const int64_t first = std::min(elements, spec.shard_ops->rank * per_rank);
  return {first, std::min(per_rank, elements - first)};
}

}  // namespace

void UsePlugin() {
  static const bool loaded = [] {
    const char* plugin = std::getenv("SHAMPOO_TEST_CUDA_PLUGIN");
    if (plugin == nullptr && fake_cuda_is_fake() != 0) plugin = SHAMPOO_TEST_CUDA_PLUGIN;
    if (plugin != nullptr) Must(shampoo_backend_load(plugin));
    return true;
  }();
  (void)loaded;
}

std::vector<ParamSpec> ParamsOf(const Shapes& shapes, int32_t dtype) {
  std::vector<ParamSpec> params;
  for (const std::vector<int64_t>& shape : shapes) params.push_back({shape, dtype, dtype, dtype});
  return params;
}

std::vector<double> Sequence(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(static_cast<int64_t>(random() % 20001) - 10000) / 4096.0;
  return values;
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return std::numeric_limits<double>::infinity();
    if (std::isfinite(b[i])) largest = std::max(largest, std::fabs(b[i]));
    if (std::isnan(a[i]) || a[i] == b[i]) continue;
    difference = std::max(difference, std::fabs(a[i] - b[i]));
  }
  return largest > 0 ? difference / largest : difference;
}

PlanPtr MakePlan(const ModelSpec& spec) {
  if (spec.device_type == SHAMPOO_CUDA) UsePlugin();
  shampoo_config* config = nullptr;
  Must(shampoo_config_create(&config));
  Must(SetPreset(config));
  for (const auto& [key, value] : spec.keys) Must(shampoo_config_set_str(config, key.c_str(), value.c_str()));
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = spec.threads;
  plan_desc.device_type = spec.device_type;
  if (spec.replica_ops != nullptr) {
    plan_desc.replica_rank = spec.replica_ops->rank;
    plan_desc.replica_world = spec.replica_ops->world;
  }
  if (spec.shard_ops != nullptr) {
    plan_desc.shard_rank = spec.shard_ops->rank;
    plan_desc.shard_world = spec.shard_ops->world;
  }
  shampoo_plan* plan = nullptr;
  Must(shampoo_plan_create(&plan, config, &plan_desc));
  for (const Keys& keys : spec.groups) {
    shampoo_config* of_group = nullptr;
    Must(shampoo_config_clone(&of_group, config));
    for (const auto& [key, value] : keys) Must(shampoo_config_set_str(of_group, key.c_str(), value.c_str()));
    Must(shampoo_plan_add_group(plan, of_group, nullptr));
    shampoo_config_destroy(of_group);
  }
  shampoo_config_destroy(config);
  for (size_t p = 0; p < spec.params.size(); ++p) {
    const ParamSpec& param = spec.params[p];
    const std::string name = "p" + std::to_string(p);
    shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
    desc.name = name.c_str();
    desc.ndim = static_cast<int32_t>(param.shape.size());
    desc.stack_dims = param.stack_dims;
    desc.group = param.group;
    desc.fan = param.fan;
    desc.role = param.role;
    for (size_t i = 0; i < param.row_splits.size(); ++i) desc.row_splits[i] = param.row_splits[i];
    for (size_t k = 0; k < param.shape.size(); ++k) desc.shape[k] = param.shape[k];
    desc.param_dtype = param.param_dtype;
    desc.grad_dtype = param.grad_dtype;
    desc.out_dtype = param.in_place ? param.param_dtype : param.out_dtype;
    desc.copy_dtype = param.copy_dtype;
    if (spec.shard_ops != nullptr) {
      const FlatRange range = FlatRangeOf(spec, param);
      desc.shard_form = 1;  // flat
      desc.flat_offset = range.first;
      desc.flat_count = range.count;
    }
    Must(shampoo_plan_add_param(plan, &desc, nullptr));
  }
  Must(shampoo_plan_finish(plan));
  return PlanPtr(plan);
}

size_t PlannedBytes(const shampoo_plan* plan, const char* what) {
  int64_t bytes = 0;
  Must(shampoo_plan_bytes(plan, -1, what, &bytes));
  return static_cast<size_t>(bytes);
}

shampoo_optimizer_desc DeviceDesc(int32_t device_id) {
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.device_type = SHAMPOO_CUDA;
  desc.device_id = device_id;
  return desc;
}

void CheckCreateFails(const shampoo_plan* plan, const shampoo_optimizer_desc& desc, shampoo_status code,
                      const std::string& says) {
  shampoo_optimizer* made = nullptr;
  CheckError(shampoo_optimizer_create(&made, plan, &desc), code, says);
  CHECK(made == nullptr);
}

Model::Model(const ModelSpec& spec, cudaStream_t of_stream) : stream(of_stream), spec_(spec) {
  plan = MakePlan(spec);
  for (const ParamSpec& param : spec.params) {
    const auto elements = static_cast<size_t>(FlatRangeOf(spec, param).count);
    Buffers buffers{param, elements, nullptr, nullptr, nullptr, nullptr, false};
    buffers.param = Allocate(elements * BytesOf(param.param_dtype));
    buffers.grad = Allocate(elements * BytesOf(param.grad_dtype));
    buffers.out = param.in_place ? buffers.param : Allocate(elements * BytesOf(param.out_dtype));
    if (param.copy_dtype != 0) buffers.copy = Allocate(elements * BytesOf(param.copy_dtype));
    params_.push_back(buffers);
  }
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.device_type = spec.device_type;
  desc.device_id = spec.device_id;
  desc.stream = stream;
  desc.allocator = spec.allocator;
  desc.state = spec.state;
  desc.state_bytes = spec.state_bytes;
  if (spec.replica_ops != nullptr) Must(shampoo_comm_from_ops(&desc.replica_comm, spec.replica_ops));
  if (spec.shard_ops != nullptr) Must(shampoo_comm_from_ops(&desc.shard_comm, spec.shard_ops));
  // Only the creation of an optimizer may load kernels.
  if (on_device()) fake_cuda_begin_loading();
  const shampoo_status created = shampoo_optimizer_create(&optimizer, plan.get(), &desc);
  if (on_device()) fake_cuda_end_loading();
  shampoo_comm_destroy(desc.replica_comm);  // does not change the error message of a failed creation
  shampoo_comm_destroy(desc.shard_comm);
  Must(created);
  FillParams(1);
}

Model::~Model() {
  shampoo_optimizer_destroy(optimizer);
  for (const Buffers& buffers : params_) {
    for (void* memory : {buffers.param, buffers.grad, buffers.spec.in_place ? nullptr : buffers.out, buffers.copy}) {
      if (on_device()) {
        (void)cudaFree(memory);
      } else {
        std::free(memory);
      }
    }
  }
}

void* Model::Allocate(size_t bytes) const {
  void* memory = nullptr;
  if (on_device()) {
    int current = 0;
    MustCuda(cudaGetDevice(&current));
    MustCuda(cudaSetDevice(spec_.device_id));
    MustCuda(cudaMalloc(&memory, bytes));
    MustCuda(cudaSetDevice(current));
  } else {
    memory = std::malloc(bytes);
  }
  return memory;
}

void Model::Put(void* to, int32_t dtype, const std::vector<double>& values) const {
  std::vector<char> bytes(values.size() * BytesOf(dtype));
  shampoo::Narrow(values.data(), bytes.data(), static_cast<Dtype>(dtype), static_cast<int64_t>(values.size()));
  if (!on_device()) {
    std::copy(bytes.begin(), bytes.end(), static_cast<char*>(to));
    return;
  }
  MustCuda(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream));
  MustCuda(cudaStreamSynchronize(stream));
}

std::vector<char> Model::GetBytes(const void* from, size_t size) const {
  std::vector<char> bytes(size);
  if (on_device()) {
    MustCuda(cudaMemcpyAsync(bytes.data(), from, bytes.size(), cudaMemcpyDeviceToHost, stream));
    MustCuda(cudaStreamSynchronize(stream));
  } else {
    std::copy_n(static_cast<const char*>(from), bytes.size(), bytes.data());
  }
  return bytes;
}

std::vector<double> Model::Get(const void* from, int32_t dtype, size_t elements) const {
  const std::vector<char> bytes = GetBytes(from, elements * BytesOf(dtype));
  std::vector<double> values(elements);
  shampoo::Widen(bytes.data(), static_cast<Dtype>(dtype), values.data(), static_cast<int64_t>(elements));
  return values;
}

void Model::FillParams(uint64_t seed) {
  for (size_t p = 0; p < params_.size(); ++p) SetParam(p, Sequence(seed * 1000 + p, params_[p].elements));
}

void Model::FillGradients(uint64_t seed) {
  for (size_t p = 0; p < params_.size(); ++p) SetGradient(p, Sequence(seed * 1000 + 500 + p, params_[p].elements));
}

void Model::SetGradient(size_t p, const std::vector<double>& values) {
  Put(params_[p].grad, params_[p].spec.grad_dtype, values);
}

void Model::SpoilGradient(size_t p, size_t element, double value) {
  std::vector<double> gradient = Sequence(77, elements(p));
  gradient[element] = value;
  SetGradient(p, gradient);
}

void Model::SetParam(size_t p, const std::vector<double>& values) {
  Put(params_[p].param, params_[p].spec.param_dtype, values);
}

void Model::SetParamsOf(const Model& other) {
  for (size_t p = 0; p < params(); ++p) SetParam(p, other.ParamValues(p));
}

std::vector<double> Model::Values(size_t p, bool of_out) const {
  const Buffers& buffers = params_[p];
  const bool out = of_out && !buffers.spec.in_place;
  return Get(out ? buffers.out : buffers.param, out ? buffers.spec.out_dtype : buffers.spec.param_dtype,
             buffers.elements);
}

std::vector<double> Model::CopyValues(size_t p) const {
  return Get(params_[p].copy, params_[p].spec.copy_dtype, params_[p].elements);
}

std::vector<double> Model::GradientValues(size_t p) const {
  return Get(params_[p].grad, params_[p].spec.grad_dtype, params_[p].elements);
}

void Model::Bind() {
  for (size_t p = 0; p < params_.size(); ++p) {
    shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
    buffers.param = params_[p].param;
    buffers.grad = params_[p].dropped ? nullptr : params_[p].grad;
    buffers.out = params_[p].out;
    buffers.copy = params_[p].copy;
    Must(shampoo_optimizer_bind(optimizer, static_cast<int32_t>(p), 1, &buffers));
  }
}

shampoo_status Model::TryStep(uint64_t seed) {
  FillGradients(seed);
  return TryStep();
}

void Model::Train(uint64_t first, uint64_t last) {
  for (uint64_t t = first; t <= last; ++t) Step(t);
}

shampoo_status Model::TryStep() {
  Bind();
  return shampoo_optimizer_step(optimizer, stream);
}

void Model::Wait() const {
  if (on_device()) MustCuda(cudaStreamSynchronize(stream));
}

std::vector<std::string> Model::Keys() const {
  int64_t count = 0;
  Must(shampoo_state_count(optimizer, &count));
  std::vector<std::string> keys;
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    Must(shampoo_state_describe(optimizer, i, &entry));
    keys.emplace_back(entry.key);
  }
  return keys;
}

int64_t Model::Entry(const std::string& key, shampoo_state_entry* entry) const {
  if (index_.empty()) {
    const std::vector<std::string> keys = Keys();
    for (size_t i = 0; i < keys.size(); ++i) index_[keys[i]] = static_cast<int64_t>(i);
  }
  const auto found = index_.find(key);
  REQUIRE_MESSAGE(found != index_.end(), "no state entry ", key);
  *entry = SHAMPOO_STATE_ENTRY_INIT;
  Must(shampoo_state_describe(optimizer, found->second, entry));
  return found->second;
}

std::vector<char> Model::StateBytes(int64_t index, const shampoo_state_entry& entry) const {
  int64_t elements = 1;
  for (int32_t k = 0; k < entry.ndim; ++k) elements *= entry.shape[k];
  std::vector<char> bytes(static_cast<size_t>(elements) * BytesOf(entry.dtype));
  Must(shampoo_state_read(optimizer, index, 0, elements, bytes.data(), bytes.size(), SHAMPOO_CPU,
                          on_device() ? stream : nullptr));
  return bytes;
}

std::string Model::Bits() const {
  std::string bits;
  const auto add = [&](const std::vector<char>& bytes) { bits.append(bytes.data(), bytes.size()); };
  for (const Buffers& buffers : params_) {
    add(GetBytes(buffers.param, buffers.elements * BytesOf(buffers.spec.param_dtype)));
    if (!buffers.spec.in_place) add(GetBytes(buffers.out, buffers.elements * BytesOf(buffers.spec.out_dtype)));
    if (buffers.copy != nullptr) add(GetBytes(buffers.copy, buffers.elements * BytesOf(buffers.spec.copy_dtype)));
  }
  int64_t count = 0;
  Must(shampoo_state_count(optimizer, &count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    Must(shampoo_state_describe(optimizer, i, &entry));
    add(StateBytes(i, entry));
  }
  return bits;
}

std::vector<double> Model::State(const std::string& key) const {
  shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
  const int64_t index = Entry(key, &entry);
  const std::vector<char> bytes = StateBytes(index, entry);
  const auto elements = static_cast<int64_t>(bytes.size() / BytesOf(entry.dtype));
  std::vector<double> values(static_cast<size_t>(elements));
  const auto* const integers = reinterpret_cast<const int32_t*>(bytes.data());
  const auto* const wide_integers = reinterpret_cast<const int64_t*>(bytes.data());
  if (entry.dtype == SHAMPOO_I32) {
    std::copy_n(integers, values.size(), values.begin());
  } else if (entry.dtype == SHAMPOO_I64) {
    std::copy_n(wide_integers, values.size(), values.begin());
  } else {
    shampoo::Widen(bytes.data(), static_cast<Dtype>(entry.dtype), values.data(), elements);
  }
  return values;
}

void Model::SetState(const std::string& key, const std::vector<double>& values) {
  shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
  const int64_t index = Entry(key, &entry);
  std::vector<char> bytes(values.size() * BytesOf(entry.dtype));
  if (entry.dtype == SHAMPOO_I32) {
    std::copy(values.begin(), values.end(), reinterpret_cast<int32_t*>(bytes.data()));
  } else if (entry.dtype == SHAMPOO_I64) {
    std::copy(values.begin(), values.end(), reinterpret_cast<int64_t*>(bytes.data()));
  } else {
    shampoo::Narrow(values.data(), bytes.data(), static_cast<Dtype>(entry.dtype), static_cast<int64_t>(values.size()));
  }
  Must(shampoo_state_write(optimizer, index, 0, static_cast<int64_t>(values.size()), bytes.data(), bytes.size(),
                           SHAMPOO_CPU, on_device() ? stream : nullptr));
}

void Model::Save(const std::string& directory) {
  Must(shampoo_save(&optimizer, 1, nullptr, directory.c_str(), stream));
}

void Model::Load(const std::string& directory) {
  Must(shampoo_load(&optimizer, 1, nullptr, directory.c_str(), stream));
}

double Model::Stat(const char* key) const {
  double value = 0;
  Must(shampoo_optimizer_stat(optimizer, key, &value));
  return value;
}

}  // namespace shampoo_test
