// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <shampoo/shampoo.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shampoo_test {

using Keys = std::vector<std::pair<std::string, std::string>>;

inline void Must(shampoo_status status) { REQUIRE_MESSAGE(status == SHAMPOO_OK, std::string(shampoo_last_error())); }
inline void MustCuda(cudaError_t error) {
  REQUIRE_MESSAGE(error == cudaSuccess, std::string(cudaGetErrorString(error)));
}

// Makes the library take the plugin of this build, which stands on the double; once for a process.
void UsePlugin();

// A parameter of a model: dtypes as SHAMPOO_F32 ...
struct ParamSpec {
  std::vector<int64_t> shape;
  int32_t param_dtype = SHAMPOO_F32;
  int32_t grad_dtype = SHAMPOO_F32;
  int32_t out_dtype = SHAMPOO_F32;
  bool in_place = true;    // out is param
  int32_t copy_dtype = 0;  // 0: no copy
  int32_t group = 0;       // 1: the first of ModelSpec::groups
  int32_t stack_dims = 0;
};

struct ModelSpec {
  Keys keys;
  std::vector<ParamSpec> params;
  int32_t device_type = SHAMPOO_CUDA;
  int32_t device_id = 0;
  const shampoo_allocator* allocator = nullptr;
  int32_t threads = 1;
  std::vector<Keys> groups;  // beside that of `keys`, which hold for them, too, where they are not set anew
  void* state = nullptr;     // nullptr: the optimizer's own
  size_t state_bytes = 0;
  const shampoo_comm_ops* replica_ops = nullptr;  // which rank of how many it is; nullptr: there is one
};

// Finished, of parameters "p0", "p1", ...
shampoo_plan* MakePlan(const ModelSpec& spec);

// Bytes as they lie on the device, or on the host for a model of the CPU. Values are given and taken as double.
class Model {
 public:
  explicit Model(const ModelSpec& spec, cudaStream_t stream = nullptr);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Parameters get values from a fixed sequence that the seed begins; gradients likewise, anew for each step.
  void FillParams(uint64_t seed);
  void FillGradients(uint64_t seed);
  void SetGradient(size_t p, const std::vector<double>& values);
  void SetParam(size_t p, const std::vector<double>& values);
  void DropGradient(size_t p, bool dropped) { params_[p].dropped = dropped; }
  std::vector<double> ParamValues(size_t p) const { return Values(p, false); }  // waits for the stream
  std::vector<double> OutValues(size_t p) const { return Values(p, true); }
  std::vector<double> CopyValues(size_t p) const;

  void Bind();               // all buffers, as they are now
  shampoo_status TryStep();  // Bind and step
  void Step() { Must(TryStep()); }
  void Wait() const;

  std::vector<std::string> Keys() const;  // of the state
  std::vector<double> State(const std::string& key) const;
  void SetState(const std::string& key, const std::vector<double>& values);
  double Stat(const char* key) const;
  // The bytes of all parameters, outputs and entries of the state, one after another.
  std::string Bits() const;

  size_t params() const { return params_.size(); }
  size_t elements(size_t p) const { return params_[p].elements; }
  void* param(size_t p) const { return params_[p].param; }
  void* grad(size_t p) const { return params_[p].grad; }

  shampoo_optimizer* optimizer = nullptr;
  shampoo_plan* plan = nullptr;
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
  mutable std::map<std::string, int64_t> index_;  // of entries of the state, by key
};

// Values of magnitude about one, the same for the same seed.
std::vector<double> Sequence(uint64_t seed, size_t count);

// The largest |a - b| relative to the largest |b|; infinity where one is not finite and the other differs.
double Distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace shampoo_test
