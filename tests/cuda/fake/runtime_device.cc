// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>

#include <cstdlib>
#include <limits>
#include <typeindex>

#include "tests/cuda/fake/launcher.h"
#include "tests/cuda/fake/state.h"

// Functions of the fake CUDA runtime for devices, errors, and the loading and launching of kernels.
namespace shampoo::cuda_fake {
namespace {

const char* NameOfBody(const std::type_info& body) {
  static auto* const names = new std::map<std::type_index, std::string>;
  std::string& name = (*names)[body];
  if (name.empty()) {
    char* const text = abi::__cxa_demangle(body.name(), nullptr, nullptr, nullptr);
    name = text != nullptr ? text : body.name();
    std::free(text);
  }
  return name.c_str();
}

}  // namespace

uint64_t NextOrder() { return NextRandom(); }

// Loads a kernel, and counts this as a call of cudaFuncGetAttributes(). If the kernel is already loaded, does nothing
// and counts no call.
cudaError_t LoadKernel(const std::type_info& body) {
  const std::unique_lock<std::recursive_mutex> lock(TheMutex());  // NameOfBody() requires this lock
  const char* const name = NameOfBody(body);
  if (TheState().IsLoaded(CurrentDevice(), name)) return cudaSuccess;
  const Call call("cudaFuncGetAttributes", Call::kNone);
  if (call.over()) return call.Cuda();
  return Call::Cuda(TheState().Load(CurrentDevice(), name) ? cudaSuccess : cudaErrorNotPermitted);
}

cudaError_t EnqueueKernel(cudaStream_t handle, int64_t ctas, const std::type_info& body,
                          std::function<void(int64_t)> run) {
  const std::unique_lock<std::recursive_mutex> lock(TheMutex());  // NameOfBody() requires this lock
  const char* const name = NameOfBody(body);
  const Call call("Launch", Call::kNone, name);
  if (call.over()) return call.Cuda();
  State& state = TheState();
  const std::shared_ptr<Stream> stream = Call::StreamOf(handle, CurrentDevice());
  if (stream == nullptr || stream->device != CurrentDevice()) return Call::Cuda(cudaErrorInvalidResourceHandle);
  if (ctas < 0 || ctas > std::numeric_limits<int32_t>::max()) return Call::Cuda(cudaErrorInvalidConfiguration);
  if (!state.Load(stream->device, name)) return Call::Cuda(cudaErrorNotPermitted);
  ++state.counts[FAKE_CUDA_LAUNCHES];
  ++state.kernels[name];
  return Call::Cuda(
      state.streams.Enqueue(stream, [ctas, run = std::move(run)] { Order(ctas, NextOrder()).ForEach(run); }));
}

}  // namespace shampoo::cuda_fake

namespace {
using shampoo::cuda_fake::Call;
using shampoo::cuda_fake::CurrentDevice;
using shampoo::cuda_fake::TheState;
}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const Call call(__func__, Call::kNone);
  if (count != nullptr) *count = 0;
  if (call.over()) return call.Cuda();
  if (count == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  *count = TheState().devices;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  if (device == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  *device = CurrentDevice();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  if (device < 0 || device >= TheState().devices) return Call::Cuda(cudaErrorInvalidDevice);
  CurrentDevice() = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  if (value == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  if (device < 0 || device >= TheState().devices) return Call::Cuda(cudaErrorInvalidDevice);
  const auto& set = TheState().compute_capabilities;
  const auto found = set.find(device);
  const auto [major, minor] = found == set.end() ? std::pair(9, 0) : found->second;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = minor;
      return cudaSuccess;
    default:
      return Call::Cuda(cudaErrorNotSupported);  // the plugin uses no other attribute
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  const Call call(__func__, Call::kNoDevice);
  if (call.over()) return call.Cuda();
  if (version == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  *version = TheState().driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  const Call call(__func__, Call::kNoDevice);
  if (call.over()) return call.Cuda();
  if (version == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  *version = TheState().runtime_version;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
  const Call call(__func__, Call::kUnsafe | Call::kWaitsForDevice | Call::kSynchronizes);
  if (call.over()) return call.Cuda();
  TheState().streams.FinishDevice(CurrentDevice());
  return Call::Cuda(TheState().fault);
}

// cudaGetLastError() and cudaPeekAtLastError() cannot fail. fake_cuda_fail() therefore does not count calls
// of these two functions.
cudaError_t cudaGetLastError(void) {
  const cudaError_t error = cudaPeekAtLastError();
  shampoo::cuda_fake::LastError() = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void) {
  const std::unique_lock<std::recursive_mutex> lock(shampoo::cuda_fake::TheMutex());
  const cudaError_t fault = TheState().fault;
  return fault != cudaSuccess ? fault : shampoo::cuda_fake::LastError();
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define SHAMPOO_FAKE_NAME(name) \
  case name:                    \
    return #name
    SHAMPOO_FAKE_NAME(cudaSuccess);
    SHAMPOO_FAKE_NAME(cudaErrorInvalidValue);
    SHAMPOO_FAKE_NAME(cudaErrorMemoryAllocation);
    SHAMPOO_FAKE_NAME(cudaErrorInitializationError);
    SHAMPOO_FAKE_NAME(cudaErrorInvalidConfiguration);
    SHAMPOO_FAKE_NAME(cudaErrorInsufficientDriver);
    SHAMPOO_FAKE_NAME(cudaErrorNoDevice);
    SHAMPOO_FAKE_NAME(cudaErrorInvalidDevice);
    SHAMPOO_FAKE_NAME(cudaErrorInvalidResourceHandle);
    SHAMPOO_FAKE_NAME(cudaErrorIllegalState);
    SHAMPOO_FAKE_NAME(cudaErrorNotReady);
    SHAMPOO_FAKE_NAME(cudaErrorIllegalAddress);
    SHAMPOO_FAKE_NAME(cudaErrorLaunchFailure);
    SHAMPOO_FAKE_NAME(cudaErrorLaunchOutOfResources);
    SHAMPOO_FAKE_NAME(cudaErrorECCUncorrectable);
    SHAMPOO_FAKE_NAME(cudaErrorNotPermitted);
    SHAMPOO_FAKE_NAME(cudaErrorNotSupported);
    SHAMPOO_FAKE_NAME(cudaErrorStreamCaptureUnsupported);
    SHAMPOO_FAKE_NAME(cudaErrorStreamCaptureInvalidated);
    SHAMPOO_FAKE_NAME(cudaErrorStreamCaptureMerge);
    SHAMPOO_FAKE_NAME(cudaErrorStreamCaptureUnmatched);
    SHAMPOO_FAKE_NAME(cudaErrorStreamCaptureUnjoined);
    SHAMPOO_FAKE_NAME(cudaErrorStreamCaptureIsolation);
    SHAMPOO_FAKE_NAME(cudaErrorStreamCaptureImplicit);
    SHAMPOO_FAKE_NAME(cudaErrorStreamCaptureWrongThread);
    SHAMPOO_FAKE_NAME(cudaErrorCapturedEvent);
    SHAMPOO_FAKE_NAME(cudaErrorUnknown);
#undef SHAMPOO_FAKE_NAME
    default:
      return "unrecognized error code";
  }
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

}  // extern "C"
