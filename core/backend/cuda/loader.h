// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/status.h"

namespace shampoo::cuda {

struct Table;

// Functions that find and load the plugin, libshampoo_cuda.so. The first call that finds the plugin loads it, and the
// plugin then remains loaded. Without such a call, the library loads nothing and does not call the NVIDIA driver. All
// functions may be called on any thread.

// Loads the plugin. name_or_path: the path of the plugin's file, or "cuda" to search the folder of this library and
// then the system's library path. Fails if the plugin is not found or does not match this library. Also fails if
// name_or_path is a path and a plugin from another file is already loaded. Does not check whether there is a device.
Status LoadPlugin(const char* name_or_path);
// Returns the plugin's table of functions (interface.h). Loads the plugin if it is not loaded yet.
Status FindPlugin(const Table** table);

// The CUDA devices of this process. If CUDA can be used, the plugin has kernels for at least one device, but perhaps
// not for all devices. Table::create returns an error for a device without kernels.
struct Devices {
  const char* unavailable_reason;  // "": CUDA can be used. Valid for the lifetime of the process
  int32_t count;                   // 0 if CUDA cannot be used
};
// Describes the devices. Loads the plugin if it is not loaded yet.
Devices FindDevices();

}  // namespace shampoo::cuda
