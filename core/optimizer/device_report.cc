// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// What steps on a device have found: taken, counted, told in the log, and raised.
#include <algorithm>
#include <utility>

#include "core/base/caught.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/comm/agreement.h"
#include "core/optimizer/on_device.h"
#include "core/optimizer/optimizer.h"
#include "core/optimizer/refusals.h"

namespace shampoo {

// ticket: of the step to wait for; 0: of none.
Status Optimizer::TakeReport(int64_t ticket) {
  cuda::StepReport& report = device_->report;
  const cuda::StepReport before = report;
  SHAMPOO_RETURN_IF_ERROR(device_->engine->Take(ticket, &report));
  steps_ = report.steps;
  skipped_steps_ = report.skipped_steps;
  nonfinite_blocks_ = report.nonfinite_blocks;
  const int64_t stood = report.standing_blocks - before.standing_blocks;
  const int64_t skipped = report.nonfinite_blocks - before.nonfinite_blocks - stood;
  const auto all = [](int64_t blocks) { return blocks == 1 ? std::string() : Cat(" (the last of ", blocks, ")"); };
  if (skipped > 0) {
    LogText(LogLevel::kWarning, [&] {
      const bool whole_step = report.skipped_steps > before.skipped_steps;
      const Block& block = plan_->blocks[static_cast<size_t>(report.skipped_block)];
      return Cat(whole_step ? "a step is skipped: " : "a block is skipped: ", "the gradient of block ",
                 BlockName(ParamOf(block), block), all(skipped), " is not finite, or too large");
    });
  }
  if (stood > 0) {
    const Block& block = plan_->blocks[static_cast<size_t>(report.standing_block)];
    const OnNonFinite choice = groups_[static_cast<size_t>(block.group)].settings.on_nonfinite;
    if (choice == OnNonFinite::kError && standing_block_ < 0) standing_block_ = report.standing_block;
    LogText(LogLevel::kWarning, [&] { return Cat(StandingText(ParamOf(block), block), all(stood)); });
  }
  return {};
}

// Waits for the last step that was not captured, and enters what became of it.
Status Optimizer::Settle() {
  OnDevice& device = *device_;
  OnDevice::Asked& asked = device.asked;
  SHAMPOO_RETURN_IF_ERROR(TakeReport(asked.ticket));
  const int64_t ticket = std::exchange(asked.ticket, 0);
  if (ticket == 0) return {};
  const bool made = device.report.steps > asked.steps_before;
  if (!made && device.report.skipped_steps == asked.skipped_before) {
    if (asked.state_in != asked.state_out) device.ForgetAhead();  // there is nothing of it in state_out
    // The blocks of this rank may have been stepped before another rank's refusal arrived.
    if (device.comm != nullptr && device.has_snapshots) device.counters_of = nullptr;
    return {};
  }
  // A step that is skipped copies the state, too.
  device.counters_of = asked.state_out;
  if (asked.state_in != asked.state_out && asked.state_out == lost_state_) lost_.clear();  // all of it is new
  if (!made) return {};
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (asked.steps[g] != 0) device.counters[g] = asked.steps[g];
  }
  if (device.has_snapshots && asked.any_task) TakeSnapshotSteps();
  return EnterRootsOfDevice(ticket);
}

// As the device has reported them last.
void Optimizer::TakeSnapshotSteps() {
  OnDevice& device = *device_;
  std::copy_n(device.engine->snapshot_steps(), device.snapshot_steps.size(), device.snapshot_steps.begin());
}

bool Optimizer::KnowsCounters() const {
  return device_->counters_of == state_in_ && !device_->may_be_replayed && !device_->forgets;
}

// From the state that the next step reads. It waits for the stream, and so for replays in it.
Status Optimizer::FetchCounters() {
  OnDevice& device = *device_;
  const auto bytes = static_cast<int64_t>(device.counters.size() * sizeof(int64_t));
  SHAMPOO_RETURN_IF_ERROR(device.engine->Download(device.counters.data(), state_in_, bytes, device.stream));
  if (device.has_snapshots) {
    SHAMPOO_RETURN_IF_ERROR(device.engine->ReadSnapshotSteps(state_in_, device.stream));
    TakeSnapshotSteps();
  }
  device.counters_of = state_in_;
  device.forgets = false;
  return TakeReport(0);
}

// when: what is told of the step that was refused; nullptr: it is that of this call.
Status Optimizer::RaiseRefusal(const char* when) {
  OnDevice& device = *device_;
  if (device.report.refusals <= device.raised) return {};
  device.raised = device.report.refusals;
  Status refused = device.comm != nullptr ? RefusalTogether() : RefusalOf(device.report);
  return when == nullptr ? std::move(refused) : std::move(refused).Within(when);
}

Status Optimizer::RefusalOf(const cuda::StepReport& report) {
  using cuda::Refusal;
  const auto g = static_cast<size_t>(report.group);
  switch (report.refusal) {
    case Refusal::kCounter:
      device_->counters_of = nullptr;
      return RefuseCounter(g, static_cast<int64_t>(report.value));
    case Refusal::kSchedule:
      device_->StateChanges(true);  // by something else, or the step was a replay
      return RefuseSchedule(report);
    case Refusal::kLearningRate:
      return RefuseScalar("lr", g, report.value);
    case Refusal::kGradientScale:
      return RefuseScalar("gradient_scale", g, report.value);
    case Refusal::kGradientNotFinite:
    case Refusal::kParamNotFinite:
    case Refusal::kElementTooLarge:
    case Refusal::kMomentTooLarge:
    case Refusal::kFactorTooLarge:
    case Refusal::kFactorNotFinite:
      return RefusalOfBlock(report);
    case Refusal::kNone:
    case Refusal::kStale:
    case Refusal::kOtherRank:
      break;
  }
  return Internal("the CUDA backend has refused a step for the reason ", static_cast<int32_t>(report.refusal));
}

Status Optimizer::RefusalOfBlock(const cuda::StepReport& report) const {
  using cuda::Refusal;
  const Block& block = plan_->blocks[static_cast<size_t>(report.block)];
  const RefusedAt at{ParamOf(block), block, report.element, report.value};
  switch (report.refusal) {
    case Refusal::kElementTooLarge:
      return RefuseElement(at);
    case Refusal::kMomentTooLarge:
      return RefuseMoment(at);
    case Refusal::kFactorTooLarge: {
      const int64_t in_slice = block.elements / block.shape[report.dim];
      return RefuseFactor(
          at, report.dim,
          report.value * report.value * static_cast<double>(in_slice) < ProductLimit(block.computation));
    }
    case Refusal::kFactorNotFinite:
      return RefuseFactorState(at.param, block, static_cast<size_t>(report.dim), report.value);
    default:
      return RefuseNotFinite(at, report.refusal == Refusal::kParamNotFinite);
  }
}

Status Optimizer::RefuseSchedule(const cuda::StepReport& report) const {
  const auto counter = static_cast<int64_t>(report.value);
  constexpr const char* kAfterSuchAWrite =
      ". After such a write call shampoo_optimizer_bind_state with NULL and NULL, then bind the arena again";
  if (report.refused_ticket == device_->last_ticket && report.block >= 0) {
    const Block& block = plan_->blocks[static_cast<size_t>(report.block)];
    return WrongState("the state \"", BlockName(ParamOf(block), block),
                      "/snapshot_step\" is not what the step before it left: its bytes were written by something else",
                      kNothingChanged, kAfterSuchAWrite);
  }
  if (report.refused_ticket == device_->last_ticket) {
    return WrongState("the state \"group.", report.group, "/step\" is ", counter, ", and the step before it left ",
                      device_->asked.steps[static_cast<size_t>(report.group)] - 1,
                      ": its bytes were written by something else", kNothingChanged, kAfterSuchAWrite);
  }
  return WrongState(
      "a captured step was replayed as step ", counter + 1, " of group ", report.group,
      ", at which inverse roots are due or taken over, or whose direction is formed by another rule than that of the "
      "step that was captured",
      kNothingChanged, ". Call shampoo_optimizer_step for it outside of a capture");
}

// A number that was bound, and read by the device.
Status Optimizer::RefuseScalar(const char* name, size_t group, double value) const {
  const Key& key = *FindKey(name);
  Status status = CheckNumber(key, value);
  if (status.ok()) status = CheckArithmetic(key, value, groups_[group].narrowest);
  if (status.ok()) status = Internal("the CUDA backend has refused ", name, " ", value);
  return std::move(status).Within(Cat("the scalar bound to group ", group));
}

}  // namespace shampoo
