// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/device_schedule.h"
#include "core/backend/cuda/plugin/kernel_common.h"

namespace shampoo::cuda {
namespace {

constexpr int kBuffersAtOnce = 64;
constexpr int64_t kTasksAtOnce = 2048;
constexpr int kGroupsAtOnce = 6;

// The addresses of the buffers are kernel arguments, because a copy from host memory would need synchronization. With
// such a copy, a captured graph would not contain the addresses.
struct SetBuffersBody {
  Buffers values[kBuffersAtOnce];
  Buffers* to;
  int32_t count;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(count, [&](int64_t i) { to[i] = values[i]; });
  }
};

struct SetTasksBody {
  RootTask values[kTasksAtOnce];
  RootTask* to;
  int32_t count;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(count, [&](int64_t i) { to[i] = values[i]; });
  }
};

struct BeginStepBody {
  Tables tables;
  int64_t ticket;
  int64_t acknowledged_rejections;
  Code failure;
  int32_t again;
  int32_t exports;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.Once([&] {
      StepState& state = *tables.state;
      StepReport& report = state.report;
      report.ticket = ticket;
      int64_t& known = state.acknowledged_rejections;
      known = acknowledged_rejections > known ? acknowledged_rejections : known;
      // No step is made after a rejection that the host has not acknowledged.
      const bool is_unseen = report.rejections > known;
      // If an earlier attempt to enqueue this step failed, that attempt may already have rejected the step and counted
      // the rejection. The other ranks may not know of this rejection.
      const bool is_own = is_unseen && again != 0 && report.rejected_ticket == ticket;
      state.counted = is_own ? 1 : is_unseen ? 2 : 0;
      state.failure = failure;
      state.exports = exports;
      state.rejected = is_unseen || failure != Code::kOk ? 1 : 0;
      state.go = state.rejected == 0 ? 1 : 0;
    });
  }
};

SHAMPOO_DEVICE inline double ScalarValue(const DeviceScalar& bound, double own) {
  return bound.value == nullptr ? own : ReadAs<double>(bound.value, bound.dtype, 0);
}

SHAMPOO_DEVICE inline GroupSettings InForce(const DeviceSettings& settings) {
  GroupSettings in_force = settings;
  for (int key = 0; key < kBindableKeys; ++key) {
    double& value = in_force.*BindableField(key);
    value = ScalarValue(settings.bound[key], value);
  }
  return in_force;
}

// in_force: the settings with the values of bound scalars.
SHAMPOO_DEVICE inline DeviceGroup StepOf(const GroupSettings& in_force, int64_t t) {
  DeviceGroup step;
  step.settings = in_force;
  static_cast<StepScalars&>(step) = MakeStepScalars(step.settings, t);
  step.schedule = GroupScheduleOf(step.settings, t);
  step.active = 1;
  step.has_gradients = 1;
  step.is_prepared = 1;
  return step;
}

struct BeginGroupsBody {
  Tables tables;
  DeviceSettings settings[kGroupsAtOnce];
  int64_t expected[kGroupsAtOnce];
  Dtype narrowest[kGroupsAtOnce];
  int32_t first;
  int32_t count;
  int32_t any_task;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    for (int32_t i = 0; i < count; ++i) {
      const bool has_gradients = !settings[i].count_empty_steps || HasGradients(cta, first + i);
      cta.Once([&] { Begin(i, has_gradients); });
    }
  }

  SHAMPOO_DEVICE bool HasGradients(const Cta& cta, int32_t group) const {
    const auto has_gradient = [&](int64_t p) {
      const DeviceParam& param = tables.params[p];
      return param.group == group && param.elements > 0 && tables.buffers[p].grad != nullptr;
    };
    return cta.First(tables.param_count, has_gradient) < tables.param_count;
  }

  SHAMPOO_DEVICE void Begin(int32_t i, bool has_gradients) const {
    const int32_t group = first + i;
    DeviceGroup& step = tables.groups[group];
    step.active = 0;
    step.has_gradients = 0;
    step.is_prepared = 1;
    // Set the following members for inactive groups, too: other shard ranks may make a step of these groups, and shard
    // ranks compare the settings of all groups.
    step.settings = InForce(settings[i]);
    step.lr = step.settings.lr;
    step.gradient_scale = step.settings.gradient_scale;
    step.output = settings[i].output;
    if (expected[i] == 0) return;
    StepState* const state = tables.state;

    const int64_t counter = reinterpret_cast<const int64_t*>(tables.state_in)[group];
    if (!IsStepCounter(counter)) {
      return RejectGroup(state, Rejection::kCounter, group, static_cast<double>(counter));
    }
    step = StepOf(step.settings, counter + 1);
    if (step.settings.method == Method::kMuon) {
      tables.groups[tables.group_count + group] = StepOf(RoutedSettings(step.settings), counter + 1);
    }
    for (int key = 0; key < kBindableKeys; ++key) {
      const double value = step.settings.*BindableField(key);
      if (IsUsable(key, value, narrowest[i])) continue;
      return RejectGroup(state, Rejection::kBoundScalar, group, value, key);
    }
    // The host has prepared the launches after this kernel for the step number expected[i]. If the step updates
    // parameters, these launches must also suit the actual number. With shard_mode=gather and count_empty_steps, only
    // the first agreement of the shard ranks shows whether any rank has a gradient. In that case, DecideBody (check.cu)
    // makes this check.
    step.has_gradients = has_gradients ? 1 : 0;
    step.is_prepared = IsPreparedFor(i, counter + 1) ? 1 : 0;
    const bool may_be_empty = step.settings.count_empty_steps && tables.gathers != 0;
    if (step.is_prepared == 0 && has_gradients && !may_be_empty) {
      RejectGroup(state, Rejection::kSchedule, group, static_cast<double>(counter));
    }
  }

  // Returns whether the launches that were prepared for the step number expected[i] suit step number t.
  SHAMPOO_DEVICE bool IsPreparedFor(int32_t i, int64_t t) const {
    if (t == expected[i]) return true;
    if (any_task != 0) return false;
    if (UsesEigenbasis(settings[i].method)) return true;  // CheckBlocks checks each block
    const GroupSchedule schedule = GroupScheduleOf(settings[i], t);
    const RefreshKeys& keys = schedule.keys;
    if (GraftingOf(settings[i].method) != Grafting::kNone) return true;  // an elementwise method has no schedule
    if (IsSteepestDescent(settings[i].method)) return (t >= keys.start) == (expected[i] >= keys.start);
    if (keys.spread) return false;  // each step may have different tasks
    // CheckBlocks compares the prepared and the actual task of each block that has snapshots.
    return !IsDue(schedule, 0) && (t >= keys.start) == (expected[i] >= keys.start);
  }
};

SHAMPOO_DEVICE inline void ReportBlockCountersTo(const Tables& tables, const Cta& cta, const char* arena) {
  cta.ForEach(tables.block_count,
              [&](int64_t b) { tables.reported_block_counters[b] = BlockCounterOf(tables.blocks[b], arena); });
}

struct EndStepBody {
  Tables tables;
  int32_t reports_counters;
  int32_t refreshed;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const bool exports = tables.state->exports != 0;
    const bool made = tables.state->rejected == 0 && tables.state->go != 0 && !exports;
    const auto is_skipped = [&](int64_t b) { return tables.work[b].update_skipped != 0; };
    const int64_t blocks = made ? tables.block_count : 0;
    const double skipped = cta.Sum(blocks, [&](int64_t b) { return is_skipped(b) ? 1.0 : 0.0; });
    const int64_t first = cta.First(blocks, is_skipped);
    cta.Once([&] {
      StepReport& report = tables.state->report;
      // If all ranks export (StepState::exports is 1), every host waits for this report and returns the rejection as an
      // error. The rejection is therefore acknowledged here. If another rank makes a step (`exports` is 2), the host of
      // that rank may read the rejection only in a later call. In that case, the rejection is not acknowledged here.
      if (tables.state->exports == 1 && report.rejected_ticket == report.ticket) {
        tables.state->acknowledged_rejections = report.rejections;
      }
      if (made) {
        for (int32_t g = 0; g < tables.group_count; ++g) {
          if (tables.groups[g].active != 0) reinterpret_cast<int64_t*>(tables.state_out)[g] = tables.groups[g].t;
        }
        ++report.steps;
      }
      for (int32_t g = 0; tables.counted_steps != nullptr && !exports && g < tables.group_count; ++g) {
        const DeviceGroup& group = tables.groups[g];
        const int64_t counted = made && group.active != 0 ? group.t : 0;
        tables.counted_steps[g] = group.has_gradients != 0 ? counted : -counted;
      }
      if (skipped > 0) {
        report.nonfinite_blocks += static_cast<int64_t>(skipped);
        report.skipped_updates += static_cast<int64_t>(skipped);
        report.block_without_update = first;
      }
      // The order of these writes lets the host recognize an incomplete report (HostReport).
      volatile int64_t* const begun = &tables.host_report->begun;
      volatile int64_t* const ended = &tables.host_report->ended;
      const int64_t number = ++tables.state->endings;
      *begun = number;
      Cta::FenceHost();
      tables.host_report->report = report;
      Cta::FenceHost();
      *ended = number;
    });
    if (made && reports_counters != 0) {
      ReportBlockCountersTo(tables, cta, tables.state_out);
    }
    cta.ForEach(refreshed != 0 ? tables.block_count : 0, [&](int64_t b) {
      const DeviceBlock& block = tables.blocks[b];
      if (block.owned == 0) return;
      for (int k = 0; k < block.factors; ++k) tables.host_roots[block.plan_root + k] = tables.roots[block.root_at[k]];
    });
  }
};

struct ReportBlockCountersBody {
  Tables tables;
  const char* arena;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const { ReportBlockCountersTo(tables, cta, arena); }
};

constexpr int64_t kCopyWords = 4096;

struct CopyStateBody {
  Tables tables;
  int64_t words;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    if (tables.state->rejected != 0) return;
    const int64_t begin = cta.index() * kCopyWords;
    const int64_t count = words - begin < kCopyWords ? words - begin : kCopyWords;
    const auto* const from = reinterpret_cast<const uint64_t*>(tables.state_in) + begin;
    auto* const to = reinterpret_cast<uint64_t*>(tables.state_out) + begin;
    cta.ForEach(count, [&](int64_t i) { to[i] = from[i]; });
  }
};

}  // namespace

cudaError_t SetBuffers(cudaStream_t stream, const Tables& tables, const Buffers* buffers, int32_t count) {
  for (int32_t first = 0; first < count; first += kBuffersAtOnce) {
    SetBuffersBody body;
    body.count = count - first < kBuffersAtOnce ? count - first : kBuffersAtOnce;
    body.to = tables.buffers + first;
    for (int32_t i = 0; i < body.count; ++i) body.values[i] = buffers[first + i];
    const cudaError_t error = Launch(stream, 1, body);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t SetTasks(cudaStream_t stream, const Tables& tables, const RootTask* tasks) {
  for (int64_t first = 0; first < tables.block_count; first += kTasksAtOnce) {
    SetTasksBody body;
    body.count = static_cast<int32_t>(std::min(tables.block_count - first, kTasksAtOnce));
    body.to = tables.tasks + first;
    std::copy_n(tasks + first, body.count, body.values);
    const cudaError_t error = Launch(stream, 1, body);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t BeginStep(cudaStream_t stream, const Tables& tables, int64_t ticket, const StepArgs& args) {
  return Launch(stream, 1,
                BeginStepBody{tables, ticket, args.acknowledged_rejections, args.failure, args.again, args.exports});
}

cudaError_t BeginGroups(cudaStream_t stream, const Tables& tables, const DeviceSettings* settings,
                        const int64_t* expected, const Dtype* narrowest, bool any_task) {
  for (int32_t first = 0; first < tables.group_count; first += kGroupsAtOnce) {
    BeginGroupsBody body{};
    body.tables = tables;
    body.first = first;
    body.count = tables.group_count - first < kGroupsAtOnce ? tables.group_count - first : kGroupsAtOnce;
    body.any_task = any_task ? 1 : 0;
    for (int32_t i = 0; i < body.count; ++i) {
      body.settings[i] = settings[first + i];
      body.expected[i] = expected[first + i];
      body.narrowest[i] = narrowest[first + i];
    }
    const cudaError_t error = Launch(stream, 1, body);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t EndStep(cudaStream_t stream, const Tables& tables, bool reports_counters, bool refreshed) {
  return Launch(stream, 1, EndStepBody{tables, reports_counters ? 1 : 0, refreshed ? 1 : 0});
}

cudaError_t ReportBlockCounters(cudaStream_t stream, const Tables& tables, const char* arena) {
  return Launch(stream, 1, ReportBlockCountersBody{tables, arena});
}

cudaError_t CopyState(cudaStream_t stream, const Tables& tables, int64_t bytes) {
  const int64_t words = bytes / 8;  // an arena's size is a multiple of 256 bytes
  return Launch(stream, (words + kCopyWords - 1) / kCopyWords, CopyStateBody{tables, words});
}

}  // namespace shampoo::cuda
