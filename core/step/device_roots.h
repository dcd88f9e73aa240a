// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cuda/device_state_memory.h"
#include "core/backend/cuda/interface.h"
#include "core/roots/residual.h"
#include "core/rules/schedule.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// Converts the status of an inverse root that a device has computed.
RootReport ReportOfDevice(const cuda::RootStatus& status);

// A factor matrix whose inverse root a device could not compute.
struct DeviceRootSource {
  const Block* block;
  int dim;
  RootTask task;  // kCompute: the root is computed from the factor matrix; any other task: from its snapshot
  // Number of a step of the group. kCompute: the step that refreshed the root. Any other task: the step that took the
  // snapshot.
  int64_t step;
  char* arena;  // the states, on the device
};

// Tries to compute the inverse root again. On entry, *report describes the failed attempt of the step. If the device
// has other solvers for this root method and this failure, it tries them. If none succeeds, the host tries with the
// recovery ladder. If an attempt succeeds, stores the root in the arena. If the function returns OK, *report describes
// the last attempt, even if that attempt failed.
Status RecoverDeviceRoot(const StepInputs& inputs, const cuda::DeviceStateMemory& memory,
                         const DeviceRootSource& source, RootReport* report);

}  // namespace shampoo
