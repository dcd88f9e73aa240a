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
  RootTask task;  // kCompute: the root is computed from the factor matrix; otherwise from its snapshot
  int64_t step;   // the group's step at which the factor matrix or the snapshot got its value
  char* arena;    // the states, on the device
};

// Tries to compute the inverse root again, first on the device with other solvers, and then on the host with the
// recovery ladder. If an attempt succeeds, stores the root in the arena. *report describes the failed attempt of
// the step, and is replaced by a description of the last attempt.
Status RecoverDeviceRoot(const StepInputs& inputs, const cuda::DeviceStateMemory& memory,
                         const DeviceRootSource& source, RootReport* report);

}  // namespace shampoo
