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

// Tries to compute the inverse root again. If the device has other solvers for the root method and the failure, it
// tries them. If none succeeds, the host tries with the recovery ladder. If an attempt succeeds, stores the root in the
// arena. On entry, *report describes the failed attempt of the step. If the function returns OK, *report describes the
// last attempt, even if that attempt failed.
Status RecoverDeviceRoot(const StepInputs& inputs, const cuda::DeviceStateMemory& memory,
                         const DeviceRootSource& source, RootReport* report);

}  // namespace shampoo
