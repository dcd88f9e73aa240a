// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/backend/cuda/interface.h"
#include "core/base/status.h"
#include "core/rules/schedule.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// Returns the error of a step that this rank's device rejected. expected_steps: for each group, the number of the step
// that the last call expected to make. last_ticket: the ticket (number) of the last call; a step with another ticket is
// the replay of a captured step.
Status DeviceError(const StepInputs& inputs, const cuda::StepReport& report, std::span<const int64_t> expected_steps,
                   int64_t last_ticket);

// Returns the error of a step that cannot be captured into a CUDA graph because of this block. step: the number of the
// step of the block's group.
Status RejectCapture(const StepInputs& inputs, const Block& block, const GroupSchedule& schedule, int64_t step);

// Logs the blocks and steps that the device skipped between two reports. Returns the last block whose update was
// skipped, or -1 if there is none.
int64_t LogSkipped(const StepInputs& inputs, const cuda::StepReport& before, const cuda::StepReport& now);

}  // namespace shampoo
