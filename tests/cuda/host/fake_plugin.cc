// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A fake libshampoo_cuda.so, for tests of libshampoo.so. The macros FAKE_INTERFACE, FAKE_BLOCK_BYTES and FAKE_SYMBOL
// build variants that do not match the library.
#include "tests/cuda/host/fake_plugin.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/plan/symmetric.h"

#ifndef FAKE_INTERFACE
#define FAKE_INTERFACE kInterface
#endif
#ifndef FAKE_BLOCK_BYTES
#define FAKE_BLOCK_BYTES sizeof(Block)
#endif

namespace shampoo::cuda {

namespace {

shampoo_test::FakeDevice device;  // NOLINT: one process, one fake

}  // namespace

struct Engine {
  EngineDesc desc;
  void* own_state = nullptr;
  std::vector<char> staging;
  int64_t tickets = 0;
  StepReport reported{};  // what read_report returns
  StepReport written{};   // what steps have written so far
  std::vector<RootStatus> roots;
  std::vector<int64_t> snapshot_steps;
  int64_t acknowledged_rejections = 0;
  StepArgs captured{};
  std::vector<int64_t> captured_step;
  int64_t captured_ticket = 0;
};

namespace {

Engine* the_engine = nullptr;  // NOLINT
std::mutex mutex;              // NOLINT: ranks are threads

Result Ok() { return {Code::kOk, nullptr}; }

const StateSlot& FactorOf(const Block& block, int k) { return block.factor[static_cast<size_t>(k)]; }
const StateSlot& InverseOf(const Block& block, int k) { return block.inverse[static_cast<size_t>(k)]; }

Result Create(const EngineDesc* desc, Engine** out) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (device.fails_create && desc->plan.block_count > 0 && desc->plan.replica_rank == device.rank)
    return {Code::kNoMemory, "the fake has no memory"};
  auto* engine = new Engine;
  engine->desc = *desc;
  const auto bytes = static_cast<size_t>(desc->plan.state_bytes);
  if (desc->state == nullptr) engine->own_state = std::aligned_alloc(256, bytes);
  engine->written.skipped_block = engine->written.block_without_update = -1;
  engine->reported = engine->written;
  size_t factors = 0;
  for (int64_t b = 0; b < desc->plan.block_count; ++b) factors += static_cast<size_t>(desc->plan.blocks[b].order());
  engine->roots.resize(factors);
  engine->snapshot_steps.resize(static_cast<size_t>(desc->plan.block_count));
  the_engine = engine;
  ++device.engines;
  *out = engine;
  return Ok();
}

void Destroy(Engine* engine) {
  const std::lock_guard<std::mutex> lock(mutex);
  --device.engines;
  std::free(engine->own_state);
  delete engine;
}

void* State(Engine* engine) { return engine->desc.state != nullptr ? engine->desc.state : engine->own_state; }

// Sets inverse roots to identities. The tests use float32.
Result Initialize(Engine* engine, void* arena, int64_t /*block*/, void* stream) {
  const std::lock_guard<std::mutex> lock(mutex);
  device.stream = stream;
  const PlanView& plan = engine->desc.plan;
  std::memset(arena, 0, static_cast<size_t>(plan.state_bytes));
  for (int64_t b = 0; b < plan.block_count; ++b) {
    const Block& block = plan.blocks[b];
    if (plan.owned[b] == 0) continue;
    for (int k = 0; k < block.order(); ++k) {
      const StateSlot& slot = InverseOf(block, k);
      for (int64_t i = 0; i < block.shape[k]; ++i) {
        const float one = 1;
        std::memcpy(static_cast<char*>(arena) + slot.offset + 4 * KeptAt(slot.form, block.shape[k], i, i), &one, 4);
      }
    }
  }
  return Ok();
}

bool Reject(Engine* engine, Rejection rejection, int32_t group, double value, int64_t ticket) {
  StepReport& report = engine->written;
  ++report.rejections;
  report.rejection = rejection;
  report.group = group;
  report.block = -1;
  report.value = value;
  report.rejected_ticket = ticket;
  return false;
}

bool Check(Engine* engine, const StepArgs& args, int64_t ticket, bool is_replay) {
  StepReport& report = engine->written;
  engine->acknowledged_rejections = std::max(engine->acknowledged_rejections, args.acknowledged_rejections);
  if (report.rejections > engine->acknowledged_rejections) return false;  // stale
  const auto* const counters = static_cast<const int64_t*>(args.state_in);
  for (int32_t g = 0; g < engine->desc.plan.group_count; ++g) {
    if (args.expected_step[g] == 0) continue;
    const int64_t frequency = args.groups[g].precondition_frequency;
    const bool wrong = is_replay ? (counters[g] + 1) % frequency == 0 : counters[g] + 1 != args.expected_step[g];
    if (wrong) return Reject(engine, Rejection::kSchedule, g, static_cast<double>(counters[g]), ticket);
    const DeviceScalar& lr = args.groups[g].bound_lr;
    if (lr.value == nullptr) continue;
    float value = 0;
    std::memcpy(&value, lr.value, 4);
    if (!(value >= 0)) return Reject(engine, Rejection::kLearningRate, g, static_cast<double>(value), ticket);
  }
  if (device.finds.rejection == Rejection::kNone || engine->desc.plan.replica_rank != device.rank) return true;
  const StepReport found = std::exchange(device.finds, StepReport{});
  Reject(engine, found.rejection, found.group, found.value, ticket);
  report.block = found.block;
  report.dim = found.dim;
  report.element = found.element;
  return false;
}

// Exchanges only headers, in one bucket, so that all ranks know which rank has failed.
bool Exchange(Engine* engine, const StepArgs& args, bool go, int64_t ticket) {
  struct Header {
    int64_t rejected, place, step;
    uint64_t scalars, inputs;
  };
  const PlanView& plan = engine->desc.plan;
  const auto segment = static_cast<size_t>(plan.bucket_segment_bytes[0]);
  std::vector<char> gathered(segment * static_cast<size_t>(plan.replica_world));
  const auto at = [&](int32_t rank) { return gathered.data() + segment * static_cast<size_t>(rank); };
  const Header own{go ? 0 : 1, args.place, args.expected_step[0], args.scalars_hash, args.inputs_hash};
  std::memcpy(at(plan.replica_rank), &own, sizeof own);
  if (args.gather.gather(args.gather.user, gathered.data(), plan.bucket_segment_bytes[0], args.stream) != 0)
    return false;
  Header first{};
  std::memcpy(&first, at(0), sizeof first);
  StepReport& report = engine->written;
  for (const RankDifference difference : {RankDifference::kPlace, RankDifference::kFailed, RankDifference::kStep,
                                          RankDifference::kScalars, RankDifference::kInputs}) {
    for (int32_t rank = 0; rank < plan.replica_world; ++rank) {
      Header of{};
      std::memcpy(&of, at(rank), sizeof of);
      const bool differs = difference == RankDifference::kPlace     ? of.place != own.place
                           : difference == RankDifference::kFailed  ? of.rejected != 0
                           : difference == RankDifference::kStep    ? of.step != first.step
                           : difference == RankDifference::kScalars ? of.scalars != first.scalars
                                                                    : of.inputs != first.inputs;
      if (!differs) continue;
      if (go || args.failure != Code::kOk) Reject(engine, Rejection::kOtherRank, 0, 0, ticket);
      report.rank = rank;
      report.difference = difference;
      return false;
    }
  }
  return go;
}

void Run(Engine* engine, const StepArgs& args, int64_t ticket, bool is_replay) {
  StepReport& report = engine->written;
  report.ticket = ticket;
  const PlanView& plan = engine->desc.plan;
  bool go = args.failure == Code::kOk;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    go = go && Check(engine, args, ticket, is_replay);
  }
  if (plan.replica_world > 1) go = Exchange(engine, args, go, ticket);
  if (!go) return;
  const std::lock_guard<std::mutex> lock(mutex);
  if (args.state_in != args.state_out) {
    std::memcpy(args.state_out, args.state_in, static_cast<size_t>(plan.state_bytes));
  }
  if (device.skipped_blocks > 0) report.skipped_block = 0;
  report.nonfinite_blocks += std::exchange(device.skipped_blocks, 0);
  if (std::exchange(device.skips, false)) {
    ++report.skipped_steps;
    return;
  }
  ++report.steps;
  if (device.skipped_updates > 0) report.block_without_update = 0;
  report.skipped_updates += device.skipped_updates;
  report.nonfinite_blocks += std::exchange(device.skipped_updates, 0);
  for (int32_t g = 0; g < plan.group_count; ++g) {
    if (args.expected_step[g] != 0) ++static_cast<int64_t*>(args.state_out)[g];
  }
  for (int64_t b = 0; b < plan.block_count; ++b) {
    const StateSlot& slot = plan.blocks[b].snapshot_step;
    if (plan.owned[b] == 0 || !slot.present()) continue;
    auto* const step = reinterpret_cast<int64_t*>(static_cast<char*>(args.state_out) + slot.offset);
    *step = SnapshotStepAfter(args.tasks[b], *step, args.expected_step[plan.blocks[b].group]);
    engine->snapshot_steps[static_cast<size_t>(b)] = *step;
  }
  size_t first = 0;
  const bool fails = args.any_refresh != 0 && std::exchange(device.fails_roots, false);
  for (int64_t b = 0; b < plan.block_count; ++b) {
    const Block& block = plan.blocks[b];
    for (int k = 0; k < block.order(); ++k, ++first) {
      if (!Refreshes(args.tasks[b]) || plan.owned[b] == 0) continue;
      engine->roots[first] = {ticket, RootKind::kEigen, fails ? RootFailure::kSolver : RootFailure::kNone, 0, 1, 0, 0};
      // A factor matrix with a known root: 16 I.
      const StateSlot& slot = FactorOf(block, k);
      for (int64_t i = 0; i < block.shape[k]; ++i) {
        const float value = 16;
        std::memcpy(static_cast<char*>(args.state_out) + slot.offset + 4 * KeptAt(slot.form, block.shape[k], i, i),
                    &value, 4);
      }
    }
  }
}

Result Step(Engine* engine, const StepArgs* args, int64_t* ticket) {
  const PlanView& plan = engine->desc.plan;
  *ticket = ++engine->tickets;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    ++device.steps_given;
    device.args = *args;
    device.expected_step.assign(args->expected_step, args->expected_step + plan.group_count);
    device.tasks.assign(args->tasks, args->tasks + plan.block_count);
    device.stream = args->stream;
  }
  if (args->captured != 0) {
    engine->captured = *args;
    engine->captured_step = device.expected_step;
    engine->captured.expected_step = engine->captured_step.data();
    engine->captured_ticket = *ticket;
  } else {
    Run(engine, *args, *ticket, false);
  }
  return Ok();
}

Result IsCapturing(Engine*, void* /*stream*/, int32_t* captured) {
  *captured = device.capturing ? 1 : 0;
  return Ok();
}

Result ReadReport(Engine* engine, int64_t ticket, StepReport* out) {
  if (ticket != 0) {
    const std::lock_guard<std::mutex> lock(mutex);
    ++device.waits;
    engine->reported = engine->written;
  }
  *out = engine->reported;
  return Ok();
}

const RootStatus* Roots(Engine* engine) { return engine->roots.data(); }

const int64_t* SnapshotSteps(Engine* engine) { return engine->snapshot_steps.data(); }

Result ReadSnapshotSteps(Engine* engine, const void* arena, void* stream) {
  const std::lock_guard<std::mutex> lock(mutex);
  device.stream = stream;
  const PlanView& plan = engine->desc.plan;
  for (int64_t b = 0; b < plan.block_count; ++b) {
    const StateSlot& slot = plan.blocks[b].snapshot_step;
    if (plan.owned[b] == 0 || !slot.present()) continue;
    std::memcpy(&engine->snapshot_steps[static_cast<size_t>(b)], static_cast<const char*>(arena) + slot.offset, 8);
  }
  return Ok();
}

Result Download(Engine* engine, void* host, const void* from, int64_t bytes, void* stream) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    ++device.downloads;
    device.stream = stream;
  }
  engine->reported = engine->written;
  std::memcpy(host, from, static_cast<size_t>(bytes));
  return Ok();
}

Result Upload(Engine*, void* to, const void* host, int64_t bytes, void* stream) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    device.stream = stream;
  }
  std::memcpy(to, host, static_cast<size_t>(bytes));
  return Ok();
}

Result RetryRoot(Engine* /*engine*/, const RootRetry* /*retry*/, RootStatus* out) {
  *out = {};
  out->failure = RootFailure::kSolver;
  return Ok();
}

Result Staging(Engine* engine, int64_t bytes, void** out) {
  engine->staging.resize(static_cast<size_t>(bytes));
  *out = engine->staging.data();
  return Ok();
}

void Describe(Description* out) { *out = device.description; }
void Replay() { Run(the_engine, the_engine->captured, the_engine->captured_ticket, true); }

}  // namespace

}  // namespace shampoo::cuda

#ifndef FAKE_SYMBOL
#define FAKE_SYMBOL shampoo_cuda_plugin
#endif
extern "C" __attribute__((visibility("default"))) const shampoo::cuda::Table* FAKE_SYMBOL() {
  using namespace shampoo::cuda;  // NOLINT
  using shampoo::Block;
  static const Table table = {FAKE_INTERFACE,
                              static_cast<int32_t>(FAKE_BLOCK_BYTES),
                              sizeof(DeviceSettings),
                              sizeof(StepArgs),
                              sizeof(StepReport),
                              Describe,
                              Create,
                              Destroy,
                              State,
                              Initialize,
                              Step,
                              IsCapturing,
                              ReadReport,
                              [](Engine*) -> const int64_t* { return nullptr; },
                              Roots,
                              SnapshotSteps,
                              ReadSnapshotSteps,
                              Download,
                              Upload,
                              RetryRoot,
                              Staging};
  return &table;
}

extern "C" __attribute__((visibility("default"))) shampoo_test::FakeDevice* shampoo_fake_device() {
  shampoo::cuda::device.replay = shampoo::cuda::Replay;
  return &shampoo::cuda::device;
}
