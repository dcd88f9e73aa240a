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
  RootTask task;  // kCompute: the root is that of the factor matrix; otherwise of its snapshot
  int64_t step;   // the group's step at which the source had its value
  char* arena;    // on the device
};

// Computes the inverse root again, first on the device with other solvers, and then on the host with the recovery
// ladder. Stores a root on the device if one is found. *report: the report of the step, which is replaced by the report
// of the last attempt.
Status RecoverDeviceRoot(const StepInputs& inputs, const cuda::DeviceStateMemory& memory,
                         const DeviceRootSource& source, RootReport* report);

}  // namespace shampoo
