// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace shampoo::cuda {

// An entry of the list of all kernels. CUDA loads a kernel onto a device when the kernel is first used. Loading may
// wait for work that is running on the device. If this work is a collective that waits for another rank of the same
// process, the load and the collective both wait forever. So all kernels are loaded when an Engine is created.
class KernelEntry {
 public:
  using LoadFunction = cudaError_t();

  // Adds a kernel to the list. load: loads the kernel onto the current device.
  explicit KernelEntry(LoadFunction* load) : load_(load), next_(first_) { first_ = this; }
  KernelEntry(const KernelEntry&) = delete;
  KernelEntry& operator=(const KernelEntry&) = delete;

  // Loads all kernels onto the current device.
  static cudaError_t LoadAll() {
    for (const KernelEntry* entry = first_; entry != nullptr; entry = entry->next_) {
      if (const cudaError_t error = entry->load_(); error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }

 private:
  inline static const KernelEntry* first_ = nullptr;

  LoadFunction* load_;
  const KernelEntry* next_;
};

}  // namespace shampoo::cuda
