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

// Returns the error of a step that this rank's device rejected. expected_steps: by group, the step number that the host
// expected when it enqueued the last step. last_ticket: the ticket (number) of the step that was enqueued last. If the
// report has another ticket, the rejected step was the replay of a captured step.
Status DeviceError(const StepInputs& inputs, const cuda::StepReport& report, std::span<const int64_t> expected_steps,
                   int64_t last_ticket);

// Returns the error of a step that cannot be captured into a CUDA graph, because `block` has a root task
// (core/rules/schedule.h) in the step. step: the step number of the block's group.
Status RejectCapture(const StepInputs& inputs, const Block& block, const GroupSchedule& schedule, int64_t step);

// Logs the blocks and steps that the device skipped between two reports. Returns now.block_without_update, or -1 if no
// update was skipped between the reports.
int64_t LogSkipped(const StepInputs& inputs, const cuda::StepReport& before, const cuda::StepReport& now);

}  // namespace shampoo
