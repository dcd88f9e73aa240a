// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The step of an optimizer on a device: what the host can check is checked, and the rest is given to the device, which
// refuses by itself what it finds. What a step has found is told by the next call, or with status_lag 0 by its own.
#include <algorithm>
#include <utility>

#include "core/base/caught.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/optimizer/on_device.h"
#include "core/optimizer/optimizer.h"
#include "core/optimizer/refusals.h"

namespace shampoo {
namespace {

// A DeviceGather of the engine's; user: the OnDevice.
int32_t GatherForEngine(void* user, void* buffer, int64_t segment_bytes, void* stream) {
  auto* const device = static_cast<OnDevice*>(user);
  device->lost = device->comm->GatherInStream(buffer, segment_bytes, stream);
  return device->lost.ok() ? 0 : 1;
}

constexpr const char* kStepBefore = "the step before this one was refused, and this one has changed nothing either";

}  // namespace

Status Optimizer::StepOnDevice(Status given, void* stream) {
  OnDevice& device = *device_;
  if (device.comm != nullptr && device.comm->failed()) return device.comm->FailedBefore();
  bool captured = false;
  SHAMPOO_RETURN_IF_ERROR(device.engine->IsCapturing(stream, &captured));
  device.stream = stream;
  SHAMPOO_RETURN_IF_ERROR(captured ? TakeReport(0) : Settle());
  if (!captured && !KnowsCounters()) SHAMPOO_RETURN_IF_ERROR(FetchCounters());
  // While a stream is captured nothing is waited for, so that ranks may not know the same.
  if (!captured || device.comm == nullptr) {
    SHAMPOO_RETURN_IF_ERROR(RaiseRefusal(kStepBefore));
    SHAMPOO_RETURN_IF_ERROR(RaiseStanding());
  }
  Status checked = given.ok() ? Caught([&] { return PrepareForDevice(captured); }) : std::move(given);
  // Of several ranks one that cannot make the step takes part to say so: all tell of it at once, by the next call.
  if (!checked.ok() && (device.comm == nullptr || captured)) return checked;
  SHAMPOO_RETURN_IF_ERROR(GiveToDevice(captured, checked));
  if (captured || device.lags) return {};
  SHAMPOO_RETURN_IF_ERROR(Settle());
  return RaiseRefusal(nullptr);
}

// What the host knows of a step, without doing it.
Status Optimizer::PrepareForDevice(bool captured) {
  SHAMPOO_RETURN_IF_ERROR(CheckState(state_in_));
  SHAMPOO_RETURN_IF_ERROR(CheckBound());
  SHAMPOO_RETURN_IF_ERROR(RaiseOverdueRoots());
  OnDevice& device = *device_;
  const OnDevice::Asked& asked = device.asked;
  // Only while a stream is captured may there be one that nothing is known of yet: it will have been made.
  const bool is_pending = asked.ticket != 0;
  const char* const counters_of = is_pending ? asked.state_out : device.counters_of;
  if (counters_of != state_in_ || device.forgets) {
    return WrongState(
        "the number of steps in state_in is not known, and it cannot be read while the stream is captured: call "
        "shampoo_optimizer_step once outside of a capture, or shampoo_optimizer_status");
  }
  for (Group& group : groups_) group.active = false;
  for (const Param& param : plan_->params) {
    if (HasGradient(param)) groups_[static_cast<size_t>(param.desc.group)].active = true;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    device.steps[g] = 0;
    device.numbers[g] = cuda::NumbersOf(group.settings);
    device.numbers[g].bound_lr = {group.lr.value, group.lr.dtype};
    device.numbers[g].bound_gradient_scale = {group.gradient_scale.value, group.gradient_scale.dtype};
    if (!group.active) continue;
    const int64_t counter = is_pending && asked.steps[g] != 0 ? asked.steps[g] : device.counters[g];
    if (counter < 0 || counter >= kStepLimit) return RefuseCounter(g, counter);
    device.steps[g] = counter + 1;
  }
  ListTasks();
  if (captured && device.any_task()) return RefuseCapture();
  return {};
}

void Optimizer::ListTasks() {
  OnDevice& device = *device_;
  const OnDevice::Asked& asked = device.asked;
  if (device.ahead_of != state_in_) device.ForgetAhead();
  device.any_refresh = false;
  device.first_task = -1;
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].schedule = MakeSchedule(groups_[g].settings, device.steps[g]);
  for (size_t b = 0; b < plan_->blocks.size(); ++b) {
    const Block& block = plan_->blocks[b];
    const auto g = static_cast<size_t>(block.group);
    RootTask& task = device.tasks[b];
    int64_t& snapshot_step = device.snapshot_steps_before[b];
    task = RootTask::kNone;
    snapshot_step = device.snapshot_steps[b];
    // As the step that is not reported yet will leave it, if it is made.
    if (asked.ticket != 0) snapshot_step = SnapshotStepAfter(asked.tasks[b], snapshot_step, asked.steps[g]);
    if (!HasGradient(plan_->params[static_cast<size_t>(block.param)]) || !block.is_preconditioned) continue;
    const GroupSchedule& schedule = groups_[g].schedule;
    // All ranks are to refuse the same captures, and none knows the states of the others' blocks.
    bool has_task = IsRegularTask(schedule, block.phase);
    if (Owns(block)) {
      task = RootTaskOf(schedule, block.phase, snapshot_step);
      has_task = has_task || task != RootTask::kNone;
      device.any_refresh = device.any_refresh || Refreshes(task);
      const bool is_there = device.uses_ahead && device.ahead[b] == snapshot_step;
      if (task == RootTask::kFromSnapshot && is_there) task = RootTask::kTakeOver;
    }
    if (has_task && device.first_task < 0) device.first_task = static_cast<int64_t>(b);
  }
}

// At a step that has more to do than others.
Status Optimizer::RefuseCapture() const {
  const OnDevice& device = *device_;
  const Block& block = plan_->blocks[static_cast<size_t>(device.first_task)];
  const auto g = static_cast<size_t>(block.group);
  const Settings& settings = groups_[g].settings;
  return WrongState("at step ", device.steps[g], " of group ", g, " inverse roots are ",
                    IsDue(groups_[g].schedule, block.phase) ? "due" : "taken over", " (precondition_frequency ",
                    settings.precondition_frequency,
                    settings.refresh_growth > 0 ? Cat(", refresh_growth ", settings.refresh_growth) : std::string(),
                    settings.root_async > 0 ? Cat(", root_async ", settings.root_async) : std::string(),
                    "), and such a step cannot be captured: call shampoo_optimizer_step for it outside of a capture");
}

// After a step was given that is not captured.
void Optimizer::NoteAhead(bool given) {
  OnDevice& device = *device_;
  if (!given) return device.ForgetAhead();
  device.ahead_of = state_out_;
  for (size_t b = 0; b < plan_->blocks.size(); ++b) {
    if (device.tasks[b] != RootTask::kTakeSnapshot) continue;
    device.ahead[b] = device.steps[static_cast<size_t>(plan_->blocks[b].group)];
  }
}

Status Optimizer::GiveToDevice(bool captured, const Status& checked) {
  OnDevice& device = *device_;
  cuda::StepArgs args{};
  if (device.comm != nullptr) {
    TakeInputs(device.counters.data(), false);
    args.gather = {&device, GatherForEngine};
    args.inputs_hash = HashBytes(inputs_.data(), inputs_.size() * sizeof inputs_[0], 0);
    args.scalars_hash = HashOfScalars();
    args.place = int64_t{device.number} << 32;
  }
  if (!checked.ok()) {
    std::fill(device.steps.begin(), device.steps.end(), 0);
    std::fill(device.tasks.begin(), device.tasks.end(), RootTask::kNone);
    device.any_refresh = false;
    device.first_task = -1;
  }
  device.own_failure = checked.Copy();
  args.stream = device.stream;
  args.groups = device.numbers.data();
  args.buffers = buffers_.data();
  args.buffers_changed = device.buffers_changed ? 1 : 0;
  args.state_in = state_in_;
  args.state_out = state_out_;
  args.expected_step = device.steps.data();
  args.tasks = device.tasks.data();
  args.snapshot_steps = device.snapshot_steps_before.data();
  args.any_task = device.any_task() ? 1 : 0;
  args.any_refresh = device.any_refresh ? 1 : 0;
  args.captured = captured ? 1 : 0;
  args.told = device.raised;
  args.failure = checked.code();
  int64_t ticket = 0;
  Status given = device.engine->Step(args, &ticket);
  if (!given.ok()) device.counters_of = nullptr;  // it may have come to its end all the same
  if (captured) device.uses_ahead = device.uses_ahead && state_in_ == state_out_;
  if (!captured) NoteAhead(given.ok() && checked.ok());
  if (!device.lost.ok()) return std::exchange(device.lost, Status());
  SHAMPOO_RETURN_IF_ERROR(std::move(given));
  is_initial_ = false;
  if (captured) {
    device.may_be_replayed = true;
    return {};
  }
  device.buffers_changed = false;
  OnDevice::Asked& asked = device.asked;
  asked.ticket = device.last_ticket = ticket;
  asked.state_in = state_in_;
  asked.state_out = state_out_;
  asked.steps = device.steps;
  asked.tasks = device.tasks;
  asked.any_task = device.any_task();
  asked.steps_before = device.report.steps;
  asked.skipped_before = device.report.skipped_steps;
  return {};
}

Status Optimizer::StatusOfSteps(bool wait, int64_t* failed) {
  *failed = 0;
  if (!device_) return {};
  if (device_->comm != nullptr) {
    if (device_->comm->failed()) return device_->comm->FailedBefore();
    wait = true;  // or ranks would not know the same
  }
  SHAMPOO_RETURN_IF_ERROR(wait ? Settle() : TakeReport(0));
  if (wait && !KnowsCounters()) SHAMPOO_RETURN_IF_ERROR(FetchCounters());
  const int64_t refused = device_->report.refused_ticket;
  Status status = RaiseRefusal("a step was refused");
  if (!status.ok()) *failed = refused;
  return status;
}

}  // namespace shampoo
