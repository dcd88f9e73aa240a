// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/capi/behaviour/array.h"
#include "tests/capi/objects.h"

namespace shampoo_test {

// An optimizer of parameters with any dtypes and groups, together with the arrays of the parameters. A step updates a
// parameter in place unless its `separate` is true.
class Host {
 public:
  struct Tensors {
    Array w, g, out, copy;  // parameter, gradient, output, copy
    bool has_grad = true;
    bool separate = false;  // if true, a step writes to `out`, and Step() then copies `out` to `w`
  };

  Host(const Keys& keys, const std::vector<shampoo_param_desc>& params, int32_t threads = 1)
      : Host(std::vector<Keys>{keys}, params, threads) {}
  Host(const std::vector<Keys>& groups, const std::vector<shampoo_param_desc>& params, int32_t threads = 1) {
    shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
    plan_desc.threads = threads;
    for (const Keys& keys : groups) {
      const ConfigPtr config = MakeConfig(keys);
      RequireOk(plan == nullptr ? shampoo_plan_create(&plan, config.get(), &plan_desc)
                                : shampoo_plan_add_group(plan, config.get(), nullptr));
    }
    for (const shampoo_param_desc& desc : params) Add(desc);
    RequireOk(shampoo_plan_finish(plan));
    const shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
    RequireOk(shampoo_optimizer_create(&optimizer, plan, &desc));
  }
  ~Host() {
    shampoo_optimizer_destroy(optimizer);
    shampoo_plan_destroy(plan);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void Fill(std::mt19937_64& random) {
    for (Tensors& tensor : tensors) tensor.w.Fill(random);
  }
  // Fills the parameters with numbers of a new random generator and returns the generator.
  std::mt19937_64 FillFrom(uint64_t seed) {
    std::mt19937_64 random(seed);
    Fill(random);
    return random;
  }
  void FillGradients(std::mt19937_64& random) {
    for (Tensors& tensor : tensors) tensor.g.Fill(random);
  }

  shampoo_buffers Buffers(size_t p) {
    Tensors& tensor = tensors[p];
    shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
    buffers.param = tensor.w.data();
    buffers.out = tensor.separate ? tensor.out.data() : tensor.w.data();
    if (tensor.has_grad) buffers.grad = tensor.g.data();
    if (tensor.copy.size() != 0) buffers.copy = tensor.copy.data();
    return buffers;
  }
  void Bind() {
    for (size_t p = 0; p < tensors.size(); ++p) {
      const shampoo_buffers buffers = Buffers(p);
      RequireOk(shampoo_optimizer_bind(optimizer, static_cast<int32_t>(p), 1, &buffers));
    }
  }
  void Step() {
    Bind();
    RequireOk(shampoo_optimizer_step(optimizer, nullptr));
    for (Tensors& tensor : tensors) {
      if (tensor.separate) tensor.w = tensor.out.As(tensor.w.dtype());
    }
  }

  // Makes a step and returns its status. The buffers must already be bound.
  shampoo_status TryStep() { return shampoo_optimizer_step(optimizer, nullptr); }
  // Makes a step with the bound buffers. Checks that it fails with this status and with an error that contains all
  // `words`, and that it changes nothing.
  void CheckStepFails(shampoo_status status, std::initializer_list<const char*> words) {
    const auto before = Everything();
    CHECK(TryStep() == status);
    CheckLastError(words);
    CHECK(Everything() == before);
  }
  void RandomStep(std::mt19937_64& random) {
    FillGradients(random);
    Step();
  }
  // Makes a step with gradients from a new random generator.
  void StepFrom(uint64_t seed) {
    std::mt19937_64 random(seed);
    RandomStep(random);
  }
  // CopyParams() sets the parameters of this host to those of `from`, and CopyGradients() the gradients. The first
  // parameters of `from` must have the shapes and dtypes of the parameters of this host.
  void CopyParams(const Host& from) {
    for (size_t p = 0; p < tensors.size(); ++p) tensors[p].w = from.tensors[p].w;
  }
  void CopyGradients(const Host& from) {
    for (size_t p = 0; p < tensors.size(); ++p) tensors[p].g = from.tensors[p].g;
  }

  struct Entry {
    int64_t index;
    size_t elements;
    shampoo_state_entry info;
  };
  std::vector<Entry> Entries() const {
    int64_t count = 0;
    RequireOk(shampoo_state_count(optimizer, &count));
    std::vector<Entry> entries;
    for (int64_t i = 0; i < count; ++i) {
      shampoo_state_entry info = SHAMPOO_STATE_ENTRY_INIT;
      RequireOk(shampoo_state_describe(optimizer, i, &info));
      size_t elements = 1;
      for (int k = 0; k < info.ndim; ++k) elements *= static_cast<size_t>(info.shape[k]);
      entries.push_back({i, elements, info});
    }
    return entries;
  }
  Entry Find(const std::string& key) const {
    for (const Entry& entry : Entries()) {
      if (key == entry.info.key) return entry;
    }
    FAIL("no state entry " << key);
    return {};
  }
  Array Read(const Entry& entry) const {
    Array values(entry.info.dtype, entry.elements);
    RequireOk(shampoo_state_read(optimizer, entry.index, 0, static_cast<int64_t>(entry.elements), values.data(),
                                 values.bytes().size(), SHAMPOO_CPU, nullptr));
    return values;
  }
  Array Read(const std::string& key) const { return Read(Find(key)); }
  void Write(const std::string& key, Array values) {
    const Entry entry = Find(key);
    REQUIRE(values.dtype() == entry.info.dtype);
    RequireOk(shampoo_state_write(optimizer, entry.index, 0, static_cast<int64_t>(entry.elements), values.data(),
                                  values.bytes().size(), SHAMPOO_CPU, nullptr));
  }
  void WriteValues(const std::string& key, const std::vector<double>& values) {
    Write(key, ArrayOf(Find(key).info.dtype, values));
  }
  double Steps(int group) const { return Read("group." + std::to_string(group) + "/step").Get(0); }
  void Set(const char* key, double value, int group = 0) {
    RequireOk(shampoo_optimizer_set(optimizer, group, key, value));
  }
  double Get(const char* key, int group = 0) const {
    double value = -1;
    RequireOk(shampoo_optimizer_get(optimizer, group, key, &value));
    return value;
  }
  static bool IsFinite(const Array& array) {
    const std::vector<double> values = array.Values();
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  }
  // Returns whether all states and all parameters are finite. For a parameter with `separate`, the output is checked.
  bool IsFinite() const {
    const std::vector<Entry> entries = Entries();
    return std::all_of(tensors.begin(), tensors.end(),
                       [](const Tensors& tensor) { return IsFinite(tensor.separate ? tensor.out : tensor.w); }) &&
           std::all_of(entries.begin(), entries.end(), [this](const Entry& entry) { return IsFinite(Read(entry)); });
  }
  double Stat(const char* key) const {
    double value = -1;
    RequireOk(shampoo_optimizer_stat(optimizer, key, &value));
    return value;
  }
  // Checks that each state equals the state of the same name in the other host.
  void CheckSameStates(const Host& other) const {
    for (const Entry& entry : Entries()) {
      CHECK_MESSAGE(Read(entry) == other.Read(entry.info.key), std::string(entry.info.key));
    }
  }
  // Returns the bytes of everything that a step writes: parameters, outputs, copies and states.
  std::vector<std::vector<char>> Everything() const {
    std::vector<std::vector<char>> all;
    for (const Tensors& tensor : tensors)
      all.insert(all.end(), {tensor.w.bytes(), tensor.out.bytes(), tensor.copy.bytes()});
    for (const Entry& entry : Entries()) all.push_back(Read(entry).bytes());
    return all;
  }

  std::vector<Tensors> tensors;
  shampoo_plan* plan = nullptr;
  shampoo_optimizer* optimizer = nullptr;

 private:
  void Add(const shampoo_param_desc& desc) {
    RequireOk(shampoo_plan_add_param(plan, &desc, nullptr));
    size_t elements = 1;
    for (int k = 0; k < desc.ndim; ++k) {
      elements *= static_cast<size_t>(desc.shard_form == 2 ? desc.local_shape[k] : desc.shape[k]);
    }
    if (desc.shard_form == 1) elements = static_cast<size_t>(desc.flat_count);
    const int32_t out_dtype = desc.out_dtype == 0 ? desc.param_dtype : desc.out_dtype;
    Tensors tensor{Array(desc.param_dtype, elements), Array(desc.grad_dtype, elements), Array(out_dtype, elements), {}};
    if (desc.copy_dtype != 0) tensor.copy = Array(desc.copy_dtype, elements);
    tensor.separate = out_dtype != desc.param_dtype;
    tensors.push_back(std::move(tensor));
  }
};

// Makes steps with random gradients. Returns the result of Host::Everything() after the last step.
inline std::vector<std::vector<char>> TrainedBits(const Keys& keys, const std::vector<shampoo_param_desc>& params,
                                                  int steps, int32_t threads = 1) {
  Host host(keys, params, threads);
  std::mt19937_64 random = host.FillFrom(5);
  for (int t = 0; t < steps; ++t) host.RandomStep(random);
  return host.Everything();
}

// Calls TrainedBits() with one thread and with each number of threads in `others`. Checks that all results are
// bit-identical, and returns the result.
inline std::vector<std::vector<char>> CheckThreads(const Keys& keys, const std::vector<shampoo_param_desc>& params,
                                                   int steps, std::initializer_list<int32_t> others = {2, 5}) {
  const std::vector<std::vector<char>> one = TrainedBits(keys, params, steps);
  for (const int32_t threads : others) {
    CHECK_MESSAGE(TrainedBits(keys, params, steps, threads) == one, threads << " threads");
  }
  return one;
}

// Makes one step with each host. Both steps have the same random gradients.
inline void StepBoth(Host* one, Host* other, std::mt19937_64& random) {
  one->FillGradients(random);
  other->CopyGradients(*one);
  one->Step();
  other->Step();
}

}  // namespace shampoo_test
