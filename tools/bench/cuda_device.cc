// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Defines MakeDevice() (device.h) for builds with CUDA. If the program is linked with the fake CUDA, no GPU is used.
#include <cuda_runtime_api.h>
#include <shampoo/shampoo.h>

#include "tools/bench/device.h"
#include "tools/bench/fail.h"

namespace bench {
namespace {

void TryCuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) Fail(std::string(call) + ": " + cudaGetErrorString(error));
}

class CudaDevice : public Device {
 public:
  CudaDevice() {
    TryCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (cudaEvent_t& event : events_) {
      TryCuda(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags");
    }
  }
  ~CudaDevice() override {
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
    (void)cudaStreamDestroy(stream_);
  }
  int32_t type() const override { return SHAMPOO_CUDA; }
  void* stream() const override { return stream_; }
  void* Allocate(size_t bytes) override {
    void* memory = nullptr;
    TryCuda(cudaMalloc(&memory, bytes), "cudaMalloc");
    TryCuda(cudaMemsetAsync(memory, 0, bytes, stream_), "cudaMemsetAsync");
    return memory;
  }
  void Free(void* memory) override { TryCuda(cudaFree(memory), "cudaFree"); }
  void CopyTo(void* device, const void* host, size_t bytes) override {
    TryCuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
    TryCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  void Wait() override { TryCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
  void StartClock() override { TryCuda(cudaEventRecord(events_[0], stream_), "cudaEventRecord"); }
  double StopClock() override {
    float milliseconds = 0;
    TryCuda(cudaEventRecord(events_[1], stream_), "cudaEventRecord");
    TryCuda(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
    TryCuda(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]), "cudaEventElapsedTime");
    return milliseconds / 1e3;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t events_[2] = {};
};

}  // namespace

std::unique_ptr<Device> MakeDevice(const std::string& name, const std::string& plugin) {
  if (name == "cpu") return nullptr;
  if (name != "cuda") Fail("--device " + name + ": expected cpu or cuda");
  if (!plugin.empty()) Try(shampoo_backend_load(plugin.c_str()));
  shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
  Try(shampoo_backend_describe(1, &info));
  if (info.usable == 0) Fail("--device cuda: " + std::string(info.unavailable_reason));
  return std::make_unique<CudaDevice>();
}

}  // namespace bench
