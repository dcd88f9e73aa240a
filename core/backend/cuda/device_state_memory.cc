// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/device_state_memory.h"

#include <utility>

#include "core/base/text.h"

namespace shampoo::cuda {

Status DeviceStaging::Memory(int64_t bytes, char** memory) {
  void* found = nullptr;
  SHAMPOO_RETURN_IF_ERROR(engine_->Staging(bytes, &found));
  *memory = static_cast<char*>(found);
  return {};
}

Status DeviceStaging::ToDevice(void* to, const void* from, int64_t bytes) {
  return engine_->Upload(to, from, bytes, stream_);
}

Status DeviceStaging::ToHost(void* to, const void* from, int64_t bytes) {
  return engine_->Download(to, from, bytes, stream_);
}

DeviceStateMemory::DeviceStateMemory(const PlanData& plan, std::shared_ptr<const DeviceEngine> engine, void* arena,
                                     void* stream)
    : plan_(plan),
      engine_(std::move(engine)),
      allocated_(arena == nullptr),
      arena_(arena != nullptr ? static_cast<char*>(arena) : engine_->state()),
      stream_(stream) {}

Status DeviceStateMemory::CheckStream(const void* /*stream*/) const { return {}; }

Status DeviceStateMemory::CheckBuffer(const char* name, DeviceType buffer) const {
  if (buffer == DeviceType::kCpu || buffer == DeviceType::kCuda) return {};
  return Unsupported(name, " is ", static_cast<int32_t>(buffer), ": expected SHAMPOO_CPU (1) or SHAMPOO_CUDA (2)");
}

Status DeviceStateMemory::CheckReadable(const std::string& what) const {
  bool captured = false;
  SHAMPOO_RETURN_IF_ERROR(engine_->IsCapturing(stream_, &captured));
  if (!captured) return {};
  return WrongState(what,
                    " cannot be read while the stream of the last call is being captured, because the read would wait "
                    "for this stream: call this function outside of the capture");
}

Status DeviceStateMemory::Initialize(char* arena) { return engine_->Initialize(arena, -1, stream_); }

Status DeviceStateMemory::InitializeFactors(const Block& block, const Settings& /*settings*/, char* arena) {
  return engine_->Initialize(arena, &block - plan_.blocks.data(), stream_);
}

Status DeviceStateMemory::Download(void* to, const void* from, int64_t bytes) const {
  return engine_->Download(to, from, bytes, stream_);
}

Status DeviceStateMemory::Upload(void* to, const void* from, int64_t bytes) const {
  return engine_->Upload(to, from, bytes, stream_);
}

Status DeviceStateMemory::Map(char* from, int64_t bytes, std::vector<char>* copy, char** mapped) const {
  copy->resize(static_cast<size_t>(bytes));
  *mapped = copy->data();
  return Download(copy->data(), from, bytes);
}

std::unique_ptr<Staging> DeviceStateMemory::MakeStaging(void* stream) const {
  return std::make_unique<DeviceStaging>(engine_.get(), stream);
}

}  // namespace shampoo::cuda
