// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Defines the only exported symbol of libshampoo_cuda.so: a function that returns a table of functions (interface.h).
// No exception leaves the functions of the table.
#include <cstdio>
#include <new>

#include "core/backend/cuda/plugin/compute_capability.h"
#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/engine.h"
#include "core/base/text.h"
#include "core/base/thread_text.h"

namespace shampoo::cuda {
namespace {

Result ResultOf(const Status& status) noexcept {
  if (status.ok()) return {Code::kOk, nullptr};
  const char* const kept = ThreadText::Set(status.message());
  const char* const fixed = "out of host memory; there is also no memory for the error message";
  return {status.code(), kept != nullptr ? kept : fixed};
}

template <typename Body>
Result Guarded(Body&& body) noexcept {
  try {
    return ResultOf(body());
  } catch (const std::bad_alloc&) {
    return ResultOf(Status::OutOfMemory());
  } catch (...) {
    return {Code::kInternal, "unexpected exception in the CUDA backend"};
  }
}

// The oldest supported version of CUDA is 12.6, which added batched eigendecompositions of matrices of any size.
constexpr int kMinVersion = 12060;

void SetUnavailable(Description* out, const std::string& reason) {
  std::snprintf(out->unavailable_reason, sizeof out->unavailable_reason, "%s", reason.c_str());
}

std::string VersionText(int version) { return Cat(version / 1000, ".", version % 1000 / 10); }

void Describe(Description* out) noexcept {
  *out = {};
  try {
    (void)cudaRuntimeGetVersion(&out->runtime_version);
    if (cudaDriverGetVersion(&out->driver_version) != cudaSuccess) out->driver_version = 0;
    if (out->driver_version == 0) {
      return SetUnavailable(out, "there is no NVIDIA driver on this machine: expected one for CUDA 12.6 or later");
    }
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver || out->driver_version < kMinVersion) {
      return SetUnavailable(
          out, Cat("the NVIDIA driver is too old: it supports CUDA ", VersionText(out->driver_version),
                   ", and the CUDA backend was built with CUDA ", VersionText(out->runtime_version),
                   ": expected a driver for the same or a later major version, and at least 12.6; update the driver"));
    }
    if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
      return SetUnavailable(out,
                            "there is no CUDA device, or none is visible to this process; check CUDA_VISIBLE_DEVICES");
    }
    if (error != cudaSuccess) {
      return SetUnavailable(out, Cat("the CUDA runtime failed to start: ", cudaGetErrorString(error)));
    }
    // device_count includes devices for which the plugin has no kernels, so that CUDA's device numbers remain valid.
    // Engine::Create rejects devices without kernels. If no device has kernels, the backend cannot be used.
    Status unusable;
    for (int device = 0; device < count; ++device) {
      Status status = CheckComputeCapability(device);
      if (status.ok()) {
        out->device_count = count;
        return;
      }
      if (unusable.ok()) unusable = std::move(status);
    }
    SetUnavailable(out, std::string(unusable.message()));
  } catch (...) {
    std::snprintf(out->unavailable_reason, sizeof out->unavailable_reason, "out of host memory");
  }
}

Result CreateEngine(const EngineDesc* desc, Engine** out) {
  return Guarded([&]() -> Status {
    std::unique_ptr<Engine> made;
    SHAMPOO_RETURN_IF_ERROR(Engine::Create(*desc, &made));
    *out = made.release();
    return {};
  });
}

void DestroyEngine(Engine* engine) {
  if (engine == nullptr) return;
  const DeviceScope scope(engine->device());
  delete engine;
}

const Table kTable = {
    .interface_number = kInterface,
    .block_bytes = sizeof(Block),
    .settings_bytes = sizeof(DeviceSettings),
    .args_bytes = sizeof(StepArgs),
    .report_bytes = sizeof(StepReport),
    .describe = Describe,
    .create = CreateEngine,
    .destroy = DestroyEngine,
    .state = [](Engine* engine) { return engine->state(); },
    .initialize =
        [](Engine* engine, void* arena, int64_t block, void* stream) {
          return Guarded(
              [&] { return engine->Initialize(static_cast<char*>(arena), block, static_cast<cudaStream_t>(stream)); });
        },
    .await_async_roots = [](Engine* engine,
                            const RootTask* tasks) { return Guarded([&] { return engine->AwaitAsyncRoots(tasks); }); },
    .step = [](Engine* engine, const StepArgs* args,
               int64_t* ticket) { return Guarded([&] { return engine->Step(*args, ticket); }); },
    .export_averages = [](Engine* engine,
                          const ExportArgs* args) { return Guarded([&] { return engine->Export(*args); }); },
    .is_capturing =
        [](Engine* engine, void* stream, int32_t* captured) {
          return Guarded([&] { return engine->IsCapturing(static_cast<cudaStream_t>(stream), captured); });
        },
    .read_report = [](Engine* engine, int64_t ticket,
                      StepReport* out) { return Guarded([&] { return engine->ReadReport(ticket, out); }); },
    .counted_steps = [](Engine* engine) { return engine->counted_steps(); },
    .roots = [](Engine* engine) { return engine->roots(); },
    .block_counters = [](Engine* engine) { return engine->block_counters(); },
    .read_block_counters =
        [](Engine* engine, const void* arena, void* stream) {
          return Guarded([&] {
            return engine->ReadBlockCounters(static_cast<const char*>(arena), static_cast<cudaStream_t>(stream));
          });
        },
    .download =
        [](Engine* engine, void* host, const void* device, int64_t bytes, void* stream) {
          return Guarded([&] {
            return engine->Copy(host, device, bytes, cudaMemcpyDeviceToHost, static_cast<cudaStream_t>(stream));
          });
        },
    .upload =
        [](Engine* engine, void* device, const void* host, int64_t bytes, void* stream) {
          return Guarded([&] {
            return engine->Copy(device, host, bytes, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream));
          });
        },
    .retry_root = [](Engine* engine, const RootRetry* retry,
                     RootStatus* out) { return Guarded([&] { return engine->RetryRoot(*retry, out); }); },
    .host_root_memory =
        [](Engine* engine) {
          return engine->host_root_transfer() == nullptr ? HostRootMemory{} : engine->host_root_transfer()->memory();
        },
    .start_host_roots = [](Engine* engine, const HostRootStart* start,
                           int64_t* job) { return Guarded([&] { return engine->StartHostRoots(*start, job); }); },
    .begin_host_roots = [](Engine* engine,
                           int64_t job) { return Guarded([&] { return engine->host_root_transfer()->Begin(job); }); },
    .fetch_host_roots =
        [](Engine* engine, const HostRoot* roots, int64_t count, int32_t buffer) {
          return Guarded([&] { return engine->host_root_transfer()->Fetch(roots, count, buffer); });
        },
    .wait_for_host_roots =
        [](Engine* engine, int32_t buffer) {
          return Guarded([&] { return engine->host_root_transfer()->WaitForFetch(buffer); });
        },
    .return_host_roots =
        [](Engine* engine, const HostRoot* roots, int64_t count) {
          return Guarded([&] { return engine->host_root_transfer()->Return(roots, count); });
        },
    .end_host_roots = [](Engine* engine,
                         int64_t job) { return Guarded([&] { return engine->host_root_transfer()->End(job); }); },
    .staging = [](Engine* engine, int64_t bytes,
                  void** out) { return Guarded([&] { return engine->Staging(bytes, out); }); },
    .exchange_memory =
        [](Engine* engine) { return engine->host_exchange() == nullptr ? nullptr : engine->host_exchange()->memory(); },
    .fetch_exchange =
        [](Engine* engine, int64_t offset, const void* from, int64_t bytes, void* stream) {
          return Guarded(
              [&] { return engine->host_exchange()->Fetch(offset, from, bytes, static_cast<cudaStream_t>(stream)); });
        },
    .return_exchange =
        [](Engine* engine, void* to, int64_t offset, int64_t bytes, void* stream) {
          return Guarded(
              [&] { return engine->host_exchange()->Return(to, offset, bytes, static_cast<cudaStream_t>(stream)); });
        },
    .seconds = [](Engine* engine) { return engine->seconds(); },
    .parameter_hashes = [](Engine* engine) { return engine->parameter_hashes(); },
};

}  // namespace
}  // namespace shampoo::cuda

extern "C" __attribute__((visibility("default"))) const shampoo::cuda::Table* shampoo_cuda_plugin() {
  return &shampoo::cuda::kTable;
}
