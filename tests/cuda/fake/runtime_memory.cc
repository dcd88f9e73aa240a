// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <vector>

#include "tests/cuda/fake/state.h"

namespace shampoo::cuda_fake {
namespace {

cudaError_t Allocate(void** out, size_t bytes, int device, bool pooled) {
  State& state = TheState();
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (state.memory_limit != 0 && state.memory.live_bytes(device) + bytes > static_cast<size_t>(state.memory_limit)) {
    return cudaErrorMemoryAllocation;
  }
  *out = state.memory.AllocateDevice(device, bytes, pooled);
  ++state.counts[FAKE_CUDA_ALLOCATIONS];
  return *out == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

// Returns the allocation that begins at the address `data` and has memory of type `place`, or nullptr if there is none.
// Also returns nullptr if the host has already called a function that frees the allocation.
Allocation* OwnAllocation(void* data, Place place) {
  Allocation* const allocation = TheState().memory.Find(data);
  const bool is = allocation != nullptr && allocation->data == data && allocation->place == place;
  return is && !allocation->leaving ? allocation : nullptr;
}

// If *kind is cudaMemcpyDefault, replaces *kind by the direction that follows from the addresses, and returns true.
// Otherwise returns whether *kind agrees with the addresses.
bool ResolveKind(void* dst, const void* src, cudaMemcpyKind* kind) {
  Memory& memory = TheState().memory;
  const Place to = memory.PlaceOf(dst);
  const Place from = memory.PlaceOf(src);
  if (*kind == cudaMemcpyDefault) {
    const bool to_device = to == Place::kDevice;
    const bool from_device = from == Place::kDevice;
    *kind = to_device ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                      : (from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
    return true;
  }
  // Pinned memory agrees with every kind, because the host and the device can access it.
  const bool to_device_wanted = *kind == cudaMemcpyHostToDevice || *kind == cudaMemcpyDeviceToDevice;
  const bool from_device_wanted = *kind == cudaMemcpyDeviceToHost || *kind == cudaMemcpyDeviceToDevice;
  return to != (to_device_wanted ? Place::kUnknown : Place::kDevice) &&
         from != (from_device_wanted ? Place::kUnknown : Place::kDevice);
}

int DeviceOf(const void* address, int otherwise) {
  const Allocation* const allocation = TheState().memory.Find(address);
  return allocation != nullptr && allocation->place == Place::kDevice ? allocation->device : otherwise;
}

struct CopyArgs {
  void* dst;
  const void* src;
  size_t bytes;
  int device;                 // the device of the stream
  bool dst_known, src_known;  // whether dst and src were device or pinned memory at the time of the call
};

void Copy(const CopyArgs& args) {
  State& state = TheState();
  // A copy can access the memory of all devices, not only the memory of its stream's device.
  const int to = DeviceOf(args.dst, args.device);
  const int from = DeviceOf(args.src, args.device);
  if (args.dst_known && !state.Check(to, args.dst, args.bytes, "cudaMemcpy, destination")) return;
  if (args.src_known && !state.Check(from, args.src, args.bytes, "cudaMemcpy, source")) return;
  if (to != args.device || from != args.device) state.memory.OpenAll();
  std::memmove(args.dst, args.src, args.bytes);
}

cudaError_t EnqueueCopy(void* dst, const void* src, size_t bytes, cudaMemcpyKind* kind,
                        const std::shared_ptr<Stream>& stream) {
  State& state = TheState();
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (*kind < cudaMemcpyHostToHost || *kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (bytes == 0) return cudaSuccess;
  if (dst == nullptr || src == nullptr || !ResolveKind(dst, src, kind)) return cudaErrorInvalidValue;
  if (*kind == cudaMemcpyDeviceToHost) ++state.counts[FAKE_CUDA_COPIES_TO_HOST];
  const auto known = [&](const void* side) { return state.memory.PlaceOf(side) != Place::kUnknown; };
  CopyArgs args{dst, src, bytes, stream->device, known(dst), known(src)};
  if (stream->capture != nullptr || (args.dst_known && args.src_known)) {
    return state.streams.Enqueue(stream, [args] { Copy(args); });
  }
  // If a copy accesses pageable memory (host memory that is not pinned), CUDA returns only after this access.
  // The fake therefore copies a pageable source at once, and waits for a copy to a pageable destination.
  const auto* const from = static_cast<const char*>(src);
  const auto staged = std::make_shared<const std::vector<char>>(from, args.src_known ? from : from + bytes);
  if (!args.src_known) args.src = staged->data();
  const cudaError_t error = state.streams.Enqueue(stream, [args, staged] { Copy(args); });
  if (error == cudaSuccess && !args.dst_known) state.streams.Finish(stream);
  return error;
}

cudaError_t EnqueueSet(void* data, int value, size_t bytes, const std::shared_ptr<Stream>& stream) {
  State& state = TheState();
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  if (state.memory.PlaceOf(data) == Place::kUnknown) return cudaErrorInvalidValue;
  const int device = stream->device;
  return state.streams.Enqueue(stream, [=] {
    if (TheState().Check(device, data, bytes, "cudaMemset")) std::memset(data, value, bytes);
  });
}

}  // namespace
}  // namespace shampoo::cuda_fake

using namespace shampoo::cuda_fake;

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) {
  const Call call(__func__, Call::kUnsafe);
  if (call.over()) return call.Cuda();
  return Call::Cuda(Allocate(data, bytes, CurrentDevice(), false));
}

cudaError_t cudaFree(void* data) {
  const Call call(__func__, Call::kUnsafe | Call::kReleases | (data != nullptr ? Call::kSynchronizes : Call::kNone));
  if (call.over()) return call.Cuda();
  if (data == nullptr) return cudaSuccess;
  Allocation* const allocation = OwnAllocation(data, Place::kDevice);
  if (allocation == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  allocation->leaving = true;
  TheState().streams.FinishDevice(allocation->device);
  TheState().memory.Free(data);
  return Call::Cuda(TheState().fault);
}

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t handle) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  State& state = TheState();
  const std::shared_ptr<Stream> stream = Call::StreamOf(handle, CurrentDevice());
  if (stream == nullptr) return Call::Cuda(cudaErrorInvalidResourceHandle);
  // During a capture, CUDA would make the memory a part of the graph. The plugin does not use this feature, so the fake
  // reports an error.
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return Call::Cuda(cudaErrorStreamCaptureUnsupported);
  }
  const cudaError_t error = Allocate(data, bytes, stream->device, true);
  if (error != cudaSuccess || *data == nullptr) return Call::Cuda(error);
  return Call::Cuda(state.streams.Enqueue(stream, [begin = *data] { TheState().memory.Begin(begin); }));
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t handle) {
  const Call call(__func__, Call::kReleases);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Stream> stream = Call::StreamOf(handle, CurrentDevice());
  if (stream == nullptr) return Call::Cuda(cudaErrorInvalidResourceHandle);
  if (data == nullptr) return cudaSuccess;
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return Call::Cuda(cudaErrorStreamCaptureUnsupported);
  }
  Allocation* const allocation = OwnAllocation(data, Place::kDevice);
  if (allocation == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  allocation->leaving = true;
  if (TheState().fault != cudaSuccess) {
    TheState().memory.Free(data);
    return Call::Cuda(TheState().fault);
  }
  return Call::Cuda(TheState().streams.Enqueue(stream, [data] { TheState().memory.Free(data); }));
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned int flags) {
  const Call call(__func__, Call::kUnsafe);
  if (call.over()) return call.Cuda();
  if (data == nullptr || flags > 7) return Call::Cuda(cudaErrorInvalidValue);
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  *data = TheState().memory.AllocatePinned(CurrentDevice(), bytes);
  ++TheState().counts[FAKE_CUDA_ALLOCATIONS];
  return Call::Cuda(*data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

// Unlike cudaFree(), cudaFreeHost() need not wait for pending work. The fake does not wait, so pending work that
// accesses the memory causes a fault.
cudaError_t cudaFreeHost(void* data) {
  const Call call(__func__, Call::kUnsafe | Call::kReleases);
  if (call.over()) return call.Cuda();
  if (data == nullptr) return cudaSuccess;
  if (OwnAllocation(data, Place::kPinned) == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  TheState().memory.Free(data);
  return Call::Cuda(TheState().fault);
}

// With unified addressing, pinned memory has the same address on the host and on the device.
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  if (device == nullptr || flags != 0 || TheState().memory.PlaceOf(host) != Place::kPinned) {
    return Call::Cuda(cudaErrorInvalidValue);
  }
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  Memory& memory = TheState().memory;
  if (memory.PlaceOf(dst) == Place::kUnknown || memory.PlaceOf(src) == Place::kUnknown)
    ++TheState().counts[FAKE_CUDA_PAGEABLE_COPIES];
  return Call::Cuda(EnqueueCopy(dst, src, bytes, &kind, Call::StreamOf(handle, CurrentDevice())));
}

cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  const Call call(__func__, Call::kUnsafe | Call::kSynchronizes);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Stream> stream = Call::StreamOf(nullptr, CurrentDevice());
  const cudaError_t error = EnqueueCopy(dst, src, bytes, &kind, stream);
  if (error != cudaSuccess) return Call::Cuda(error);
  // The host does not wait for a copy within device memory.
  if (kind != cudaMemcpyDeviceToDevice) TheState().streams.Finish(stream);
  return Call::Cuda(TheState().fault);
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t handle) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  return Call::Cuda(EnqueueSet(data, value, bytes, Call::StreamOf(handle, CurrentDevice())));
}

cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  const Call call(__func__, Call::kUnsafe);
  if (call.over()) return call.Cuda();
  return Call::Cuda(EnqueueSet(data, value, bytes, Call::StreamOf(nullptr, CurrentDevice())));
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  if (attributes == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -1;
  const Allocation* const allocation = TheState().memory.Find(address);
  if (allocation == nullptr) {
    attributes->hostPointer = const_cast<void*>(address);
    return cudaSuccess;
  }
  const bool pinned = allocation->place == Place::kPinned;
  attributes->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = allocation->device;
  attributes->devicePointer = const_cast<void*>(address);
  attributes->hostPointer = pinned ? const_cast<void*>(address) : nullptr;
  return cudaSuccess;
}

}  // extern "C"
