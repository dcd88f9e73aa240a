// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/status.h"

namespace shampoo::cuda {

struct Table;

// The first of these calls that finds the plugin loads it, once per process. Before that, nothing is loaded and no
// driver is called. All functions may be called on any thread.

// Loads the plugin. name_or_path: "cuda" searches the folder of this library and then the system's library path;
// otherwise the path of the file. Fails if there is no plugin or if it does not match this library. Does not check
// whether there is a device.
Status LoadPlugin(const char* name_or_path);
// Returns the plugin's table. Loads the plugin if it is not loaded yet.
Status FindPlugin(const Table** table);

// The CUDA devices of this process. If CUDA can be used, the plugin has kernels for at least one of them, but perhaps
// not for all. Table::create returns an error for a device without kernels.
struct Devices {
  const char* unavailable_reason;  // "": CUDA can be used. Valid for the lifetime of the process
  int32_t count;
};
Devices FindDevices();

}  // namespace shampoo::cuda
