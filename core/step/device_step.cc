// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_step.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/base/catch_exceptions.h"
#include "core/rules/basis.h"
#include "core/rules/step_program.h"
#include "core/step/device_errors.h"
#include "core/step/device_roots.h"
#include "core/step/rejections.h"
#include "core/step/weight_export.h"

namespace shampoo {
namespace {

constexpr const char* kPreviousStep = "the previous step was rejected, and this one has changed nothing either";
constexpr const char* kAverages = "the state of the averages";
constexpr const char* kStepBeforeExport = "an earlier step was rejected, and nothing was exported";

Status UnknownCounters() {
  return WrongState(
      "the number of steps in state_in is not known, and cannot be read while the stream is captured: before the "
      "capture, call shampoo_optimizer_step or shampoo_optimizer_status once");
}

// group: a group of which this rank had no gradient in the previous step, although other ranks may have had one.
Status UnreportedStep(size_t group) {
  return WrongState(
      "group ", group,
      " had no gradient on this rank in the previous step, so only the report of that step says whether "
      "the group had one on other ranks. With status_lag=1, the report cannot be read while the stream is "
      "captured: call shampoo_optimizer_status before the capture");
}

// Returns whether all elements of the parameter are on other ranks, from which its blocks are gathered.
bool IsUnheld(const Param& param) { return param.elements == 0 && param.block_count > 0; }

// Returns the counter that a block will have if the device makes the pending step. The counter is the state
// gradient_count if the block has this state, otherwise snapshot_step. takes_part: whether the block's parameter takes
// part in the step.
int64_t CounterAfter(const Block& block, RootTask task, int64_t before, int64_t step, bool takes_part) {
  if (block.gradient_count.present()) return step > 0 && takes_part ? before + 1 : before;
  return SnapshotStepAfter(task, before, step);
}

}  // namespace

void StartedRoots::ForgetUnlessFrom(const char* arena) {
  if (arena_ != arena) Forget();
}

void StartedRoots::Record(const PlanData& plan, std::span<const RootTask> tasks, std::span<const int64_t> steps,
                          const char* arena) {
  arena_ = arena;
  for (size_t b = 0; b < plan.blocks.size(); ++b) {
    if (tasks[b] == RootTask::kTakeSnapshot) SetStarted(b, steps[static_cast<size_t>(plan.blocks[b].group)]);
  }
}

void StartedRoots::Forget() { std::fill(step_of_block_.begin(), step_of_block_.end(), 0); }

DeviceStep::DeviceStep(const StepInputs& inputs, std::shared_ptr<const cuda::DeviceEngine> engine,
                       cuda::DeviceStateMemory* memory, std::unique_ptr<DevicePeers> peers,
                       std::unique_ptr<AsyncRootSource> async_roots)
    : inputs_(inputs),
      engine_(std::move(engine)),
      memory_(memory),
      peers_(std::move(peers)),
      async_roots_(std::move(async_roots)),
      lags_(inputs.plan.groups[0].status_lag != 0),
      counters_(inputs.plan),
      started_roots_(inputs.plan.blocks.size()) {
  const size_t groups = inputs.plan.groups.size();
  const size_t blocks = inputs.plan.blocks.size();
  pending_.steps.resize(groups);
  pending_.has_gradient.resize(groups);
  pending_.takes_part.resize(inputs.plan.params.size());
  pending_.tasks.resize(blocks);
  next_.settings.resize(groups);
  next_.schedules.resize(groups);
  next_.steps.resize(groups);
  next_.has_gradient.resize(groups);
  next_.has_unheld_param.resize(groups);
  next_.takes_part.resize(inputs.plan.params.size());
  next_.tasks.resize(blocks);
  next_.block_counters_before.resize(blocks);
  next_.exported.resize(inputs.plan.params.size());
  for (const Param& param : inputs.plan.params) {
    if (IsUnheld(param)) next_.has_unheld_param[static_cast<size_t>(param.desc.group)] = 1;
  }
}

// Finishes the pending step, and reads the counters in the arena if they are not known. If this read fails, but this
// rank can report the error to the other ranks in the step or export of the current call, returns success and sets
// *fetched to the error. During a capture, only reads the device's report, without waiting.
Status DeviceStep::FinishEarlierSteps(bool captured, const char* arena, Status* fetched) {
  if (captured) return PollReport(0);
  SHAMPOO_RETURN_IF_ERROR(peers_->AbortOnError(FinishSteps()));
  if (counters_.AreKnown(arena)) return {};
  *fetched = FetchCounters(arena);
  // After a failed fetch, this rank does not know whether a replay was rejected. If a replay was rejected, the other
  // ranks return the error of the replay from this call, and join no step in which this rank could report its error.
  return fetched->ok() || !counters_.may_be_replayed() ? Status() : peers_->AbortOnError(std::move(*fetched));
}

Status DeviceStep::Step(Status caller_status, void* stream) {
  SHAMPOO_RETURN_IF_ERROR(peers_->PriorFailure());
  bool captured = false;
  SHAMPOO_RETURN_IF_ERROR(peers_->AbortOnError(engine_->IsCapturing(stream, &captured)));
  if (captured) SHAMPOO_RETURN_IF_ERROR(peers_->CheckCapture(inputs_.plan));
  memory_->UseStream(stream);
  Status fetched;
  SHAMPOO_RETURN_IF_ERROR(FinishEarlierSteps(captured, inputs_.state.in(), &fetched));
  Status checked;
  if (peers_->CanReturnEarlierErrors(captured)) {
    SHAMPOO_RETURN_IF_ERROR(RaiseRejection(kPreviousStep));
    checked = CatchExceptions([&] { return inputs_.history.RaiseSkippedUpdate(inputs_.state.hyper_parameters()); });
    if (!checked.ok() && peers_->is_skipped_update_known()) return checked;
  }
  SetSettings();
  next_.exports = false;
  if (checked.ok()) checked = std::move(fetched);
  if (checked.ok()) checked = std::move(caller_status);
  if (checked.ok()) checked = CatchExceptions([&] { return Prepare(captured); });
  if (!checked.ok() && !peers_->CanReportFailure(captured)) return checked;
  if (captured) return Enqueue(true, checked);
  SHAMPOO_RETURN_IF_ERROR(EnqueueOrAbort(std::move(checked)));
  if (lags_) return {};
  SHAMPOO_RETURN_IF_ERROR(peers_->AbortOnError(FinishSteps()));
  return RaiseRejection(nullptr);
}

// Sets the settings of the next step. A rank that joins the step only to report an error needs these settings, too.
void DeviceStep::SetSettings() {
  const HyperParameters& hyper_parameters = inputs_.state.hyper_parameters();
  for (size_t g = 0; g < next_.settings.size(); ++g) {
    next_.settings[g] = cuda::DeviceSettingsOf(hyper_parameters.settings(g));
    const std::span<const BoundScalar> bound = hyper_parameters.bound(g);
    for (size_t key = 0; key < bound.size(); ++key) next_.settings[g].bound[key] = {bound[key].value, bound[key].dtype};
  }
}

// Makes the checks of the host, and sets the steps, schedules and tasks in next_.
Status DeviceStep::Prepare(bool captured) {
  bool is_forwarded = false;
  SHAMPOO_RETURN_IF_ERROR(inputs_.state.CheckUsable(inputs_.state.in()));
  SHAMPOO_RETURN_IF_ERROR(inputs_.buffers.CheckAllBound());
  SHAMPOO_RETURN_IF_ERROR(inputs_.history.RaiseRootFailure(&is_forwarded));
  // Outside of a capture, FinishSteps() was called before, so no step is pending. During a capture, the previous step
  // may be pending. The device completes that step before it runs the captured step.
  const bool is_pending = pending_.ticket != 0;
  const char* const in = inputs_.state.in();
  const bool knows_counters =
      is_pending ? pending_.state_out == in && !counters_.has_unseen_write() : counters_.AreKnownUnlessReplayed(in);
  if (!knows_counters) return UnknownCounters();
  std::fill(next_.steps.begin(), next_.steps.end(), 0);
  std::fill(next_.has_gradient.begin(), next_.has_gradient.end(), 0);
  std::fill(next_.takes_part.begin(), next_.takes_part.end(), 0);
  for (size_t p = 0; p < inputs_.plan.params.size(); ++p) {
    const Param& param = inputs_.plan.params[p];
    const auto g = static_cast<size_t>(param.desc.group);
    if (inputs_.buffers.HasGradient(param)) next_.takes_part[p] = next_.has_gradient[g] = 1;
    if (IsUnheld(param)) next_.takes_part[p] = 1;
    if (next_.takes_part[p] != 0) next_.steps[g] = 1;
  }
  for (size_t g = 0; g < next_.steps.size(); ++g) {
    const bool counts_all = inputs_.plan.groups[g].count_empty_steps;
    if (next_.steps[g] == 0 && !counts_all) continue;
    // With count_empty_steps, only takes_part_in_replays() in ListTasks() needs the report of the pending step, and
    // only for parameters that have no elements on this rank.
    const bool needs_report = !counts_all || next_.has_unheld_param[g] != 0;
    if (is_pending && needs_report && !peers_->IsStepKnown(pending_.has_gradient[g] != 0)) return UnreportedStep(g);
    const int64_t counter = is_pending && pending_.steps[g] != 0 ? pending_.steps[g] : counters_.steps[g];
    if (!IsStepCounter(counter)) return RejectCounter(g, counter);
    next_.steps[g] = counter + 1;
  }
  ListTasks(captured);
  if (!captured) {
    // Wait for async roots here, so that errors of these roots are returned before the step joins its collectives.
    // Enqueuing the step then does not wait for roots.
    Status prepared = PrepareAsyncRoots();
    if (!prepared.ok()) started_roots_.Forget();
    return prepared;
  }
  if (next_.first_task < 0) return {};
  const Block& block = inputs_.plan.block(next_.first_task);
  const auto g = static_cast<size_t>(block.group);
  return RejectCapture(inputs_, block, next_.schedules[g], next_.steps[g]);
}

void DeviceStep::ListTasks(bool captured) {
  // Returns whether a parameter is expected to take part in the replays of a captured step. The device cannot make a
  // replay in which roots of the parameter are due. If a rank has no gradient of the parameter, it expects that the
  // replays update the same groups as the last step.
  const auto takes_part_in_replays = [this](const Param& param, size_t group) {
    if (peers_->IsStepKnown(inputs_.buffers.HasGradient(param))) return true;
    // The pending step updates the group, but counted_steps() does not describe that step yet.
    if (pending_.ticket != 0 && pending_.has_gradient[group] != 0) return true;
    return engine_->counted_steps()[group] > 0;
  };
  started_roots_.ForgetUnlessFrom(inputs_.state.in());
  next_.any_refresh = false;
  next_.first_task = -1;
  for (size_t g = 0; g < next_.schedules.size(); ++g) {
    next_.schedules[g] = GroupScheduleOf(inputs_.state.hyper_parameters().settings(g), next_.steps[g]);
  }
  for (size_t b = 0; b < inputs_.plan.blocks.size(); ++b) {
    const Block& block = inputs_.plan.blocks[b];
    const auto g = static_cast<size_t>(block.group);
    RootTask& task = next_.tasks[b];
    int64_t& counter = next_.block_counters_before[b];
    const auto p = static_cast<size_t>(block.param);
    task = RootTask::kNone;
    counter = counters_.block_counters[b];
    // If a step is pending, assume that the device makes that step.
    if (pending_.ticket != 0) {
      counter = CounterAfter(block, pending_.tasks[b], counter, pending_.steps[g], pending_.takes_part[p] != 0);
    }
    if (next_.takes_part[p] == 0 || !block.is_preconditioned) continue;
    if (captured && !takes_part_in_replays(inputs_.plan.params[p], g)) continue;
    const GroupSchedule& schedule = next_.schedules[g];
    // If a block has a regular task, all ranks must reject the capture, although only the owner knows the block's
    // state. IsRegularTask() therefore does not use this state.
    bool has_task = !block.is_rotated() && IsRegularTask(schedule, block.phase);
    if (inputs_.plan.Owns(block)) {
      task = block.is_rotated() ? BasisTaskOf(inputs_.state.hyper_parameters().settings(g), counter)
                                : RootTaskOf(schedule, block.phase, counter);
      has_task = has_task || task != RootTask::kNone;
      next_.any_refresh = next_.any_refresh || Refreshes(task);
      if (task == RootTask::kFromSnapshot && started_roots_.AreReady(b, counter)) task = RootTask::kAdoptDeviceRoots;
    }
    if (has_task && next_.first_task < 0) next_.first_task = static_cast<int64_t>(b);
  }
}

AsyncRootSource::StepRoots DeviceStep::NextStep::Roots(const char* state_in, void* stream) {
  return {&tasks, first_task >= 0, &settings, steps.data(), state_in, block_counters_before.data(), stream};
}

void DeviceStep::NextStep::SetExport(double factor, std::span<const Buffers> bound, std::span<void* const> weights) {
  exports = true;
  blend = factor;
  std::fill(exported.begin(), exported.end(), Buffers{});
  for (size_t p = 0; p < weights.size(); ++p) exported[p] = {bound[p].param, nullptr, weights[p], nullptr};
}

Status DeviceStep::PrepareAsyncRoots() {
  SHAMPOO_RETURN_IF_ERROR(async_roots_->Prepare(next_.Roots(inputs_.state.in(), memory_->stream())));
  for (size_t b = 0; b < next_.tasks.size(); ++b) {
    if (next_.tasks[b] == RootTask::kAdoptDeviceRoots) started_roots_.SetStarted(b, next_.block_counters_before[b]);
  }
  return {};
}

// again: true if the last call of Enqueue() failed. This call then enqueues the same step only to report the error.
Status DeviceStep::Enqueue(bool captured, const Status& checked, bool again) {
  cuda::StepArgs args{};
  args.captured = captured ? 1 : 0;
  args.exports = next_.exports ? 1 : 0;
  args.blend = next_.blend;
  if (!checked.ok() || next_.exports) {
    std::fill(next_.steps.begin(), next_.steps.end(), 0);
    std::fill(next_.tasks.begin(), next_.tasks.end(), RootTask::kNone);
    next_.any_refresh = false;
    next_.first_task = -1;
  }
  args.expected_step = next_.steps.data();
  args.scalars_hash = inputs_.state.hyper_parameters().Hash(false);
  peers_->Prepare(counters_.steps.data(), checked, &args);
  args.stream = memory_->stream();
  args.groups = next_.settings.data();
  args.buffers = next_.exports ? next_.exported.data() : inputs_.buffers.all().data();
  args.buffers_changed = buffers_changed_ ? 1 : 0;
  args.state_in = inputs_.state.in();
  args.state_out = inputs_.state.out();
  args.tasks = next_.tasks.data();
  args.block_counters = next_.block_counters_before.data();
  args.any_task = next_.first_task >= 0 ? 1 : 0;
  args.any_refresh = next_.any_refresh ? 1 : 0;
  args.acknowledged_rejections = raised_rejections_;
  args.failure = checked.code();
  args.again = again ? 1 : 0;
  int64_t ticket = 0;
  Status enqueued = engine_->Step(args, &ticket);
  if (!captured) last_ticket_ = ticket;
  if (next_.exports) {
    SHAMPOO_RETURN_IF_ERROR(peers_->TakeFailure());
    return enqueued;
  }
  if (enqueued.ok() && !captured) {
    enqueued = async_roots_->StartFromStep(next_.Roots(inputs_.state.in(), memory_->stream()));
  }
  if (!enqueued.ok()) counters_.Forget();  // the step may have completed nevertheless
  if (!enqueued.ok() || !checked.ok()) started_roots_.Forget();
  if (captured) {
    if (inputs_.state.in() != inputs_.state.out()) started_roots_.DisableAfterCapture();
  } else if (enqueued.ok() && checked.ok()) {
    started_roots_.Record(inputs_.plan, next_.tasks, next_.steps, inputs_.state.out());
  }
  SHAMPOO_RETURN_IF_ERROR(peers_->TakeFailure());
  SHAMPOO_RETURN_IF_ERROR(std::move(enqueued));
  RecordEnqueued(captured, ticket);
  return {};
}

// Enqueues a step that is not captured, or an export. checked: the result of the host's checks. If a CUDA call fails,
// the other ranks wait in a collective of the step. If the ranks have not yet agreed to make the step, this rank
// enqueues the step again to report its error, and all ranks reject the step.
Status DeviceStep::EnqueueOrAbort(Status checked) {
  Status enqueued = Enqueue(false, checked);
  if (enqueued.ok()) return {};
  if (checked.ok() && peers_->TryToRejoin() && Enqueue(false, enqueued, true).ok()) return {};
  return peers_->AbortOnError(std::move(enqueued));
}

void DeviceStep::RecordEnqueued(bool captured, int64_t ticket) {
  inputs_.state.MarkWritten();
  if (captured) return counters_.MarkCaptured();
  buffers_changed_ = false;
  pending_.ticket = ticket;
  pending_.state_in = inputs_.state.in();
  pending_.state_out = inputs_.state.out();
  pending_.steps = next_.steps;
  pending_.has_gradient = next_.has_gradient;
  pending_.takes_part = next_.takes_part;
  pending_.tasks = next_.tasks;
  pending_.any_task = next_.first_task >= 0;
  pending_.steps_before = report_.steps;
  pending_.skipped_before = report_.skipped_steps;
}

// Reads the device's report of its steps. ticket: the number of a step to wait for. If `ticket` is 0, does not wait.
Status DeviceStep::PollReport(int64_t ticket) {
  const cuda::StepReport before = report_;
  SHAMPOO_RETURN_IF_ERROR(engine_->ReadReport(ticket, &report_));
  inputs_.history.counts() = {report_.steps, report_.skipped_steps, report_.nonfinite_blocks};
  const int64_t block = LogSkipped(inputs_, before, report_);
  if (block < 0) return {};
  const auto group = static_cast<size_t>(inputs_.plan.block(block).group);
  inputs_.history.DeferSkippedUpdate(block, inputs_.state.hyper_parameters().settings(group).on_nonfinite);
  return {};
}

Status DeviceStep::FinishSteps() {
  SHAMPOO_RETURN_IF_ERROR(PollReport(pending_.ticket));
  const int64_t ticket = std::exchange(pending_.ticket, 0);
  if (ticket == 0) return {};
  const bool was_made = report_.steps > pending_.steps_before;
  // A step that was counted as skipped may have been rejected afterwards, because of another rank.
  const bool was_rejected = report_.rejected_ticket == ticket;
  if (!was_made && (was_rejected || report_.skipped_steps == pending_.skipped_before)) {
    if (pending_.state_in != pending_.state_out) started_roots_.Forget();  // state_out was not written
    if (peers_->CanRejectLate() && counters_.has_block_counters()) counters_.Forget();
    return {};
  }
  // A skipped step also copies the state from state_in to state_out.
  counters_.SetKnown(pending_.state_out);
  inputs_.state.MarkStepped(pending_.state_in, pending_.state_out);
  if (!was_made) return {};
  const int64_t* const counted = peers_->CountedSteps(pending_.steps.data(), engine_->counted_steps());
  for (size_t g = 0; g < pending_.steps.size(); ++g) {
    if (counted[g] != 0) counters_.steps[g] = std::abs(counted[g]);
  }
  if (counters_.has_block_counters() && (pending_.any_task || counters_.count_gradients())) {
    counters_.TakeBlockCounters(*engine_);
  }
  return RecordRoots(ticket);
}

// Reads the counters in the arena. Waits for the stream, including replays in it.
Status DeviceStep::FetchCounters(const char* arena) {
  SHAMPOO_RETURN_IF_ERROR(counters_.Fetch(*engine_, arena, memory_->stream()));
  return PollReport(0);
}

// Returns the error of the last rejected step, unless this error was returned before. prefix: precedes the message;
// nullptr if the current call of the API has enqueued the step.
Status DeviceStep::RaiseRejection(const char* prefix) {
  if (report_.rejections <= raised_rejections_) return {};
  raised_rejections_ = report_.rejections;
  Status own;
  if (report_.rejection != cuda::Rejection::kOtherRank) {
    // If there is no memory for the message, CatchExceptions() returns an error, and this rank still joins the
    // exchanges of RejectionError() below.
    own = CatchExceptions([&] { return DeviceError(inputs_, report_, pending_.steps, last_ticket_); });
  }
  if (report_.rejection == cuda::Rejection::kCounter) counters_.Forget();
  // kSchedule: the program wrote the state without the library, or the rejected step was a replay.
  if (report_.rejection == cuda::Rejection::kSchedule) OnWrite(true);
  const int64_t step = *std::max_element(pending_.steps.begin(), pending_.steps.end()) - 1;
  const bool was_replayed = report_.rejected_ticket != last_ticket_;
  Status rejected = peers_->RejectionError(report_, std::move(own), step, was_replayed);
  return prefix == nullptr ? std::move(rejected) : std::move(rejected).Within(prefix);
}

// Records the inverse roots that the last step refreshed. If the device could not compute a root,
// RecoverDeviceRoot() tries again.
Status DeviceStep::RecordRoots(int64_t ticket) {
  // The host may write the arena only while the arena is bound. An arena that is bound only as output belongs to the
  // caller again when the call of the step returns. With status_lag=1, that call has returned before the host reads the
  // report, so the host must not write such an arena.
  const bool is_writable =
      inputs_.state.out() == pending_.state_out && (inputs_.state.in() == pending_.state_out || !lags_);
  RootLedger& roots = inputs_.history.roots();
  bool refreshed = false;
  bool tracked = false;
  for (const Block& block : inputs_.plan.blocks) {
    const int64_t b = &block - inputs_.plan.blocks.data();
    const auto at = static_cast<size_t>(b);
    const auto g = static_cast<size_t>(block.group);
    const RootTask task = pending_.tasks[at];
    if (!Refreshes(task) || !inputs_.plan.Owns(block)) continue;
    const cuda::RootStatus* const statuses = engine_->roots() + roots.FirstFactorOf(b);
    if (statuses[0].ticket != ticket) continue;  // the block was skipped
    for (int k = 0; k < block.factor_count(); ++k) {
      RootReport& report = roots.ReportsOf(b)[k];
      report = ReportOfDevice(statuses[k]);
      // from_host: the host computed this async root. If the computation failed, the host has already tried the
      // recovery ladder.
      const bool from_host = async_roots_->TakeHostReport(task, roots.FirstFactorOf(b) + k, &report);
      // If the device could not compute an eigenbasis, the block keeps its previous eigenbasis of dim k until the next
      // refresh. The host does not try again: another eigenbasis would not match the states of the block, which the
      // device has already converted.
      if (report.outcome.ok() || from_host || !is_writable || block.is_rotated()) continue;
      // A step that starts to use the roots of a snapshot sets snapshot_step to -s, where s is the step at which the
      // snapshot was taken.
      const int64_t step = task == RootTask::kCompute ? pending_.steps[g] : -counters_.block_counters[at];
      const DeviceRootSource source{&block, k, task, step, pending_.state_out};
      Status status = CatchExceptions([&] { return RecoverDeviceRoot(inputs_, *memory_, source, &report); });
      if (status.code() != Code::kNoMemory) SHAMPOO_RETURN_IF_ERROR(std::move(status));
    }
    const Settings& settings = inputs_.state.hyper_parameters().settings(g);
    roots.Record(inputs_.plan, block, settings);
    refreshed = true;
    tracked = tracked || settings.track_root_residuals;
  }
  if (refreshed) roots.FinishRefresh(tracked);
  return {};
}

// Enqueues an export on the stream of the last call. If there are no other replicas and no gathered blocks, every rank
// has the averages of the elements that it holds, so no exchange is needed.
Status DeviceStep::Export(Status caller_status, double blend, std::span<void* const> weights) {
  if (inputs_.plan.ranks() > 1) return ExportWithPeers(std::move(caller_status), blend, weights);
  SHAMPOO_RETURN_IF_ERROR(std::move(caller_status));
  SHAMPOO_RETURN_IF_ERROR(memory_->CheckReadable(kAverages));
  // The pending step may make the state usable. FinishSteps() records this.
  if (!inputs_.state.CheckUsable(inputs_.state.out()).ok()) SHAMPOO_RETURN_IF_ERROR(FinishSteps());
  SHAMPOO_RETURN_IF_ERROR(CheckExport(inputs_, weights));
  return engine_->Export({memory_->stream(), inputs_.buffers.all().data(), weights.data(), inputs_.state.out(), blend});
}

// Exports averages if the blocks are distributed over several owners. The devices exchange data as in a step. This call
// waits until this rank has received all averages.
Status DeviceStep::ExportWithPeers(Status caller_status, double blend, std::span<void* const> weights) {
  SHAMPOO_RETURN_IF_ERROR(peers_->PriorFailure());
  Status readable = CatchExceptions([&] { return memory_->CheckReadable(kAverages); });
  // During a capture, all ranks return this error. They can continue outside of the capture.
  if (readable.code() == Code::kState) return readable;
  SHAMPOO_RETURN_IF_ERROR(peers_->AbortOnError(std::move(readable)));
  Status checked;
  SHAMPOO_RETURN_IF_ERROR(FinishEarlierSteps(false, inputs_.state.out(), &checked));
  SHAMPOO_RETURN_IF_ERROR(RaiseRejection(kStepBeforeExport));
  SetSettings();
  if (checked.ok()) checked = std::move(caller_status);
  if (checked.ok()) checked = CatchExceptions([&] { return CheckExport(inputs_, weights); });
  next_.SetExport(blend, inputs_.buffers.all(), checked.ok() ? weights : std::span<void* const>());
  // If the counters differ between replicas, the error compares their largest counters. RaiseRejection() computes the
  // largest counter of this rank from pending_.steps, by subtracting 1.
  for (size_t g = 0; g < pending_.steps.size(); ++g) pending_.steps[g] = counters_.steps[g] + 1;
  SHAMPOO_RETURN_IF_ERROR(EnqueueOrAbort(std::move(checked)));
  SHAMPOO_RETURN_IF_ERROR(peers_->AbortOnError(PollReport(last_ticket_)));
  return RaiseRejection(nullptr);
}

Status DeviceStep::ReportSteps(bool wait, int64_t* failed_call) {
  *failed_call = 0;
  SHAMPOO_RETURN_IF_ERROR(peers_->PriorFailure());
  wait = wait || peers_->has_to_await_reports();
  Status read = wait ? FinishSteps() : PollReport(0);
  if (read.ok() && wait && !counters_.AreKnown(inputs_.state.in())) read = FetchCounters(inputs_.state.in());
  // During a capture, all ranks fail to read the report. They can continue outside of the capture.
  if (read.code() == Code::kState) return read;
  SHAMPOO_RETURN_IF_ERROR(peers_->AbortOnError(std::move(read)));
  const int64_t rejected = report_.rejected_ticket;
  Status status = RaiseRejection("a step was rejected");
  if (!status.ok()) *failed_call = rejected;
  return status;
}

void DeviceStep::OnInitialize() {
  counters_.SetInitial(inputs_.state.out());
  started_roots_.Forget();
}

void DeviceStep::OnWrite(bool step_counters) {
  if (step_counters || counters_.has_block_counters()) counters_.Forget();
  started_roots_.Forget();
}

void DeviceStep::OnReplace() {
  counters_.Forget();
  raised_rejections_ = report_.rejections;
  inputs_.history.DiscardErrors();
}

void DeviceStep::OnUnseenWrite() {
  counters_.MarkUnseenWrite();
  started_roots_.Forget();
}

}  // namespace shampoo
