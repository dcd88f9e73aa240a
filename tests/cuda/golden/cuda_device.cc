// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The device on which a program replays recorded runs: a GPU or the fake of CUDA, depending on the CUDA runtime that
// the program is linked with.
#include <cuda_runtime_api.h>
#include <shampoo/shampoo.h>

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

#include "tests/golden/device.h"

namespace shampoo::golden {
namespace {

constexpr int kSkipped = 77;  // the exit status with which a program reports a skipped test

void Require(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

class CudaDevice : public Device {
 public:
  CudaDevice() {
    int devices = 0;
    const cudaError_t found = cudaGetDeviceCount(&devices);
    if (found != cudaSuccess || devices == 0) {
      std::cout << "skipped: no GPU (" << cudaGetErrorString(found) << ")\n";
      std::exit(kSkipped);
    }
    // The path of the plugin in the build tree.
    const char* const plugin = std::getenv("SHAMPOO_TEST_CUDA_PLUGIN");
    if (plugin != nullptr && shampoo_backend_load(plugin) != SHAMPOO_OK) throw std::runtime_error(shampoo_last_error());
    Require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  int32_t type() const override { return SHAMPOO_CUDA; }
  void* Allocate(size_t bytes) override {
    void* memory = nullptr;
    Require(cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
  }
  void Free(void* memory) override { (void)cudaFree(memory); }
  void CopyTo(void* device, const void* host, size_t bytes) override {
    Require(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
    Require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  void CopyFrom(void* host, const void* device, size_t bytes) override {
    Require(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    Require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  void* stream() const override { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace

Device& DeviceNamed(const char* name) {
  if (std::string(name) != "cuda") throw std::runtime_error("--device " + std::string(name) + ": expected cuda");
  static CudaDevice device;
  return device;
}

}  // namespace shampoo::golden
