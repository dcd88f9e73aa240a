// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A table of the optimizers of a process. The handlers (functions that XLA calls) use the table. A key of the table is
// a string that describes a plan completely, except for the device. The parameter `text` of the functions below is such
// a string. With it, the handlers can create an optimizer again at any time: after the optimizer was released, or in
// another process that runs an executable from a cache. The state is in the arena, which belongs to the caller.
#ifndef SHAMPOO_PYTHON_XLA_OPTIMIZERS_H
#define SHAMPOO_PYTHON_XLA_OPTIMIZERS_H

#include <shampoo/shampoo.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shampoo_xla {

/** An exception that the functions of this file and the handlers throw, and that the handlers catch. */
struct Failure {
  shampoo_status status;
  std::string text;  // the error message
};

/** Throws a Failure with the message of shampoo_last_error() unless status is SHAMPOO_OK. */
void Check(shampoo_status status);

template <auto Destroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    Destroy(object);
  }
};
using Config = std::unique_ptr<shampoo_config, Destroyer<shampoo_config_destroy>>;
using Plan = std::unique_ptr<shampoo_plan, Destroyer<shampoo_plan_destroy>>;
using Optimizer = std::unique_ptr<shampoo_optimizer, Destroyer<shampoo_optimizer_destroy>>;

/** The device of an optimizer: device_type and device_id as in the public header, and a stream on CUDA. */
struct DeviceDesc {
  int32_t device_type = SHAMPOO_CPU;
  int32_t device_id = 0;
  void* stream = nullptr;
};

/** Creates an optimizer whose state is in arena, and initializes the arena. */
Optimizer Make(std::string_view text, const DeviceDesc& device, void* arena, size_t bytes);

/** An optimizer, which is created on first use, and the buffers that are bound to it. */
struct Slot {
  std::mutex mutex;
  Optimizer optimizer;
  std::vector<shampoo_buffers> buffers;
};

/**
 * Returns the slot for a text and a device. The table creates the slot at the first call, and removes it when Release()
 * removes the last reference to the text. Without a call of Release(), the slot stays until the process ends.
 */
std::shared_ptr<Slot> Find(std::string_view text, const DeviceDesc& device);

/**
 * Retain() adds a reference to a text, and Release() removes one. After the last reference has been removed, the
 * optimizers of the text are destroyed as soon as no step uses them.
 */
void Retain(std::string_view text);
void Release(std::string_view text);

}  // namespace shampoo_xla

#endif  // SHAMPOO_PYTHON_XLA_OPTIMIZERS_H
