// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/engine.h"
#include "core/comm/communicator.h"

namespace shampoo {

// By memory of an engine's device, in the order of a stream.
class DeviceStaging final : public Staging {
 public:
  DeviceStaging(const cuda::DeviceEngine* engine, void* stream) : engine_(engine), stream_(stream) {}
  Status Memory(int64_t bytes, char** memory) override {
    void* found = nullptr;
    SHAMPOO_RETURN_IF_ERROR(engine_->Staging(bytes, &found));
    *memory = static_cast<char*>(found);
    return {};
  }
  Status ToDevice(void* to, const void* from, int64_t bytes) override {
    return engine_->Upload(to, from, bytes, stream_);
  }
  Status ToHost(void* to, const void* from, int64_t bytes) override {
    return engine_->Download(to, from, bytes, stream_);
  }
  void* stream() const override { return stream_; }

 private:
  const cuda::DeviceEngine* engine_;
  void* stream_;
};

}  // namespace shampoo
