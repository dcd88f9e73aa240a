// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/status.h"

namespace shampoo::cuda {

struct Table;

// The plugin is loaded once per process, by the first of these that finds it: nothing is loaded, and no driver called,
// before. All of them may be called on any thread.

// name_or_path: "cuda" (beside this library, then as the system finds it), or the file. Fails where there is no plugin,
// or one that does not fit this library; whether there is a device is not asked.
Status LoadPlugin(const char* name_or_path);
// The plugin, loaded if need be.
Status FindPlugin(const Table** table);

// Whether optimizers can be made on a device of this machine.
struct Devices {
  const char* unavailable_reason;  // "": they can. It lives as long as the process
  int32_t count;
};
Devices FindDevices();

}  // namespace shampoo::cuda
