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

// Converts the status of one inverse root on a device.
RootReport ReportOfDevice(const cuda::RootStatus& status);

// A factor matrix whose inverse root a device could not compute.
struct DeviceRootSource {
  const Block* block;
  int dim;
  RootTask task;  // kCompute: use the factor matrix; otherwise its snapshot
  int64_t step;   // the group's step at which the source had its value
  char* arena;    // on the device
};

// Computes the inverse root again and stores it on the device: first on the device with other solvers, and then on the
// host with the recovery ladder. *report: the report of the step; replaced by the report of the last attempt.
Status RecoverDeviceRoot(const StepInputs& inputs, const cuda::DeviceStateMemory& memory,
                         const DeviceRootSource& source, RootReport* report);

}  // namespace shampoo
