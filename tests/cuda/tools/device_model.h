// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <shampoo/shampoo.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/keys.h"

namespace shampoo_test {

inline void Must(shampoo_status status) { REQUIRE_MESSAGE(status == SHAMPOO_OK, std::string(shampoo_last_error())); }
// Checks that `status`, which the last call returned, is `code`, and that the last error message contains `says`.
inline void CheckError(shampoo_status status, shampoo_status code, const std::string& says) {
  const std::string text = shampoo_last_error();
  CHECK_MESSAGE(status == code, text);
  CHECK_MESSAGE(text.find(says) != std::string::npos, "expected \"", says, "\" in: ", text);
}
inline void MustCuda(cudaError_t error) {
  REQUIRE_MESSAGE(error == cudaSuccess, std::string(cudaGetErrorString(error)));
}

// Loads the plugin (libshampoo_cuda.so) that the environment variable SHAMPOO_TEST_CUDA_PLUGIN names, once per process.
// If the variable is not set, tests on the fake CUDA load the plugin that was built for the fake. On a GPU, the library
// then searches for its plugin itself.
void UsePlugin();

// A parameter of a model. Dtypes are constants such as SHAMPOO_F32.
struct ParamSpec {
  std::vector<int64_t> shape;
  int32_t param_dtype = SHAMPOO_F32;
  int32_t grad_dtype = SHAMPOO_F32;
  int32_t out_dtype = SHAMPOO_F32;
  bool in_place = true;    // steps write the output to the parameter; out_dtype is not used
  int32_t copy_dtype = 0;  // 0: steps write no copy (shampoo_buffers.copy)
  int32_t group = 0;       // 0: the default group; 1: the first of ModelSpec::groups
  int32_t stack_dims = 0;
  int32_t fan = 0;  // 0: the output dim is the first dim; 1: it is the last dim
  int32_t role = SHAMPOO_HIDDEN;
  std::vector<int64_t> row_splits = {};
};

using Shapes = std::vector<std::vector<int64_t>>;
// Returns a ParamSpec for each shape. Parameters, gradients and outputs all have the dtype `dtype`.
std::vector<ParamSpec> ParamsOf(const Shapes& shapes, int32_t dtype);

struct ModelSpec {
  Keys keys = {};
  std::vector<ParamSpec> params = {};
  int32_t device_type = SHAMPOO_CUDA;
  int32_t device_id = 0;
  const shampoo_allocator* allocator = nullptr;
  int32_t threads = 1;
  // Groups in addition to the default group. `keys` also applies to these groups, but their own keys take precedence.
  std::vector<Keys> groups = {};
  void* state = nullptr;  // nullptr: the optimizer allocates its state
  size_t state_bytes = 0;
  const shampoo_comm_ops* replica_ops = nullptr;  // nullptr: one replica
  // nullptr: no shards. Otherwise all shards of a parameter have the same number of elements, except that the last
  // ones may have fewer.
  const shampoo_comm_ops* shard_ops = nullptr;
};

struct DestroyPlan {
  void operator()(shampoo_plan* plan) const { shampoo_plan_destroy(plan); }
};
using PlanPtr = std::unique_ptr<shampoo_plan, DestroyPlan>;
// Returns a finished plan with parameters "p0", "p1", ...
PlanPtr MakePlan(const ModelSpec& spec);

// Returns the number of bytes that the plan predicts for this rank. `what` is a name that shampoo_plan_bytes() accepts,
// for example "state".
size_t PlannedBytes(const shampoo_plan* plan, const char* what);

// Returns the description of an optimizer on a device.
shampoo_optimizer_desc DeviceDesc(int32_t device_id = 0);
// Checks that an optimizer cannot be created, and that the error message contains `says`.
void CheckCreateFails(const shampoo_plan* plan, const shampoo_optimizer_desc& desc, shampoo_status code,
                      const std::string& says);

// An optimizer with the buffers of its parameters, on a device or on the CPU. Functions convert the elements of buffers
// and states from and to double. The constructor calls FillParams(1).
class Model {
 public:
  explicit Model(const ModelSpec& spec, cudaStream_t stream = nullptr);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Fill the parameters, or the gradients, with a pseudo-random sequence that the seed determines.
  void FillParams(uint64_t seed);
  void FillGradients(uint64_t seed);
  void SetGradient(size_t p, const std::vector<double>& values);
  void SpoilGradient(size_t p, size_t element, double value);  // fills the gradient, and sets one element to `value`
  void SetParam(size_t p, const std::vector<double>& values);
  void SetParamsOf(const Model& other);  // copies the parameters of `other`
  // If `dropped` is true, the following calls of Bind() bind no gradient for parameter p.
  void DropGradient(size_t p, bool dropped) { params_[p].dropped = dropped; }
  std::vector<double> ParamValues(size_t p) const { return Values(p, false); }  // waits for the stream
  std::vector<double> OutValues(size_t p) const { return Values(p, true); }
  std::vector<double> CopyValues(size_t p) const;
  std::vector<double> GradientValues(size_t p) const;

  void Bind();               // binds all current buffers
  shampoo_status TryStep();  // calls Bind() and makes a step
  void Step() { Must(TryStep()); }
  shampoo_status TryStep(uint64_t seed);  // fills the gradients and makes a step
  void Step(uint64_t seed) { Must(TryStep(seed)); }
  void Train(uint64_t first, uint64_t last);  // makes a step with each seed from first to last
  void Wait() const;
  // Waits for the device, and returns the error of the first step that was rejected since the last report of an error.
  shampoo_status Status() const { return shampoo_optimizer_status(optimizer, 1, nullptr); }
  void MustSucceed() const { Must(Status()); }

  std::vector<std::string> Keys() const;  // keys of the state
  std::vector<double> State(const std::string& key) const;
  void SetState(const std::string& key, const std::vector<double>& values);
  double Stat(const char* key) const;
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // Returns the bytes of all parameters, outputs, copies and entries of the state.
  std::string Bits() const;

  size_t params() const { return params_.size(); }
  const ParamSpec& spec(size_t p) const { return params_[p].spec; }
  size_t elements(size_t p) const { return params_[p].elements; }
  void* param(size_t p) const { return params_[p].param; }
  void* grad(size_t p) const { return params_[p].grad; }

  shampoo_optimizer* optimizer = nullptr;
  PlanPtr plan;
  cudaStream_t stream = nullptr;

 private:
  struct Buffers {
    ParamSpec spec;
    size_t elements = 0;
    void* param = nullptr;
    void* grad = nullptr;
    void* out = nullptr;
    void* copy = nullptr;
    bool dropped = false;
  };
  bool on_device() const { return spec_.device_type == SHAMPOO_CUDA; }
  void* Allocate(size_t bytes) const;
  void Put(void* to, int32_t dtype, const std::vector<double>& values) const;
  std::vector<char> GetBytes(const void* from, size_t bytes) const;
  std::vector<double> Get(const void* from, int32_t dtype, size_t elements) const;
  std::vector<char> StateBytes(int64_t index, const shampoo_state_entry& entry) const;
  std::vector<double> Values(size_t p, bool of_out) const;
  int64_t Entry(const std::string& key, shampoo_state_entry* entry) const;

  ModelSpec spec_;
  std::vector<Buffers> params_;
  mutable std::map<std::string, int64_t> index_;  // the index of each state entry, by key
};

// Returns pseudo-random values between -2.5 and 2.5. They depend only on the seed.
std::vector<double> Sequence(uint64_t seed, size_t count);

// Returns the largest |a[i] - b[i]|, divided by the largest finite |b[i]| unless this is 0. Returns infinity if the
// sizes differ, or if any a[i] and b[i] differ and are not both finite. NaN counts as equal to NaN.
double Distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace shampoo_test
