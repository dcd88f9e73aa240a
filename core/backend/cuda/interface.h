// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/backend/buffers.h"
#include "core/base/dtype.h"
#include "core/base/memory.h"
#include "core/config/settings.h"
#include "core/plan/block.h"
#include "core/roots/root.h"
#include "core/rules/schedule.h"

// What libshampoo.so and libshampoo_cuda.so know of each other: one table of C functions over plain structs. The two
// are built from one source; a plugin with another interface number, or structs of another size, is refused.
namespace shampoo::cuda {

// Raised whenever anything in this file, or in the structs of the plan that it hands over, changes.
inline constexpr int32_t kInterface = 5;
inline constexpr char kPluginSymbol[] = "shampoo_cuda_plugin";

// What a call of the plugin ends with. text lives until the thread's next call; nullptr where code is kOk.
struct Result {
  Code code;
  const char* text;
};

// A number of a group, or where in memory of the device a step reads it from.
struct DeviceScalar {
  const void* value = nullptr;  // nullptr: the number in the settings counts
  Dtype dtype = Dtype::kF32;    // or kF64
};

// The settings of a group as they are in force, and what of them a step reads from memory of the device.
struct DeviceSettings : GroupSettings {
  DeviceScalar bound_lr, bound_gradient_scale;
};
static_assert(std::is_trivially_copyable_v<DeviceSettings>);

struct ParamOfPlan {
  int64_t elements;
  Dtype param_dtype, grad_dtype, out_dtype, copy_dtype;
  int32_t group;
};

// Of a plan that lives as long as the engine does.
struct PlanView {
  const Block* blocks;
  int64_t block_count;
  const unsigned char* owned;  // by block: whether this rank steps it
  const ParamOfPlan* params;
  int32_t param_count;
  int32_t group_count;
  const DeviceSettings* groups;  // as planned
  int64_t state_bytes;
  // With several replicas: bytes of each exchange's segments. None with one.
  const int64_t* bucket_segment_bytes;
  int32_t bucket_count;
  int32_t replica_rank, replica_world;
  int32_t exchange_params;  // new parameters travel, not updates
};

struct EngineDesc {
  PlanView plan;
  int32_t device;
  HostAllocator allocator;
  void* stream;  // on which memory is allocated
  void* state;   // nullptr: allocated by the engine
  int32_t tf32;  // precondition_math is tf32
};

struct Engine;

// A collective in the order of a stream, of the caller's: over `buffer`, segments of all ranks. 0: done.
struct DeviceGather {
  void* user;
  int32_t (*gather)(void* user, void* buffer, int64_t segment_bytes, void* stream);
};

struct StepArgs {
  void* stream;
  const DeviceSettings* groups;
  const Buffers* buffers;   // by parameter: addresses of the device
  int32_t buffers_changed;  // since the last step
  const void* state_in;
  void* state_out;
  const int64_t* expected_step;  // by group: the number that the step has on the host; 0: the group is not active
  // By block: kNone where it has no gradient, or another rank steps it. The device refuses the step if the state that
  // it is given calls for another task.
  const RootTask* tasks;
  const int64_t* snapshot_steps;  // by block: the states of that name before the step
  int32_t any_task;               // of any rank's blocks
  int32_t any_refresh;            // roots are used from this step on that were not before
  int32_t captured;  // the stream is being captured into a graph: the number of the step is that of the replay
  // The number of refusals whose errors were returned: a step that finds more of them is stale. The largest number
  // that any step was given holds for replays of a captured one, too.
  int64_t acknowledged_rejections;
  // With several ranks.
  DeviceGather gather;
  uint64_t inputs_hash;  // of what must be the same on all ranks
  uint64_t scalars_hash;
  int64_t place;  // of the first exchange, as that of a SegmentHeader; of the others counted on
  // Why this rank cannot make the step: it goes through the exchanges to say so, and does nothing else. kOk: it can.
  Code failure;
};

// Why a step has changed nothing.
enum class Rejection : int32_t {
  kNone,
  kGradientNotFinite,  // value: NaN or infinity, at element
  kParamNotFinite,     // the same, of the parameter
  kElementTooLarge,    // |G| in the dtype that must hold it
  kMomentTooLarge,     // the grafting state
  kFactorTooLarge,     // factor `dim`
  kFactorNotFinite,    // in the state, factor `dim`; value: NaN or infinity
  kCounter,            // the group's step counter is value
  // The counter is value, and the step was prepared for another; or, where `block` is not -1, the block's state calls
  // for another task than the step was prepared for.
  kSchedule,
  kLearningRate,  // a bound number of the group is value
  kGradientScale,
  kStale,      // an earlier step was refused, and that was not raised yet
  kOtherRank,  // `rank` refused, or differs: see `difference`
};

// What a rank found in the headers of the others.
enum class RankDifference : int32_t { kNone, kFailed, kStep, kScalars, kInputs, kPlace };

// What the device tells of its steps, in memory of the host. Counts go on from create.
struct StepReport {
  int64_t
      ticket;  // of the last step in this report: calls are numbered from 1; replays have the number of their capture
  // Steps that were refused, but those that were stale; what follows is of the last of them.
  int64_t rejections;
  Rejection rejection;
  int32_t group;
  int64_t rejected_ticket;
  int64_t block;  // of the plan
  int32_t dim;
  RankDifference difference;
  int64_t element;  // of the caller's buffer
  double value;
  int32_t rank;
  int32_t state_at_fault;  // the gradient alone would have passed
  int64_t steps;           // made
  int64_t skipped_steps;
  int64_t nonfinite_blocks;      // skipped, or standing still
  int64_t skipped_block;         // the last that was skipped; -1: none yet
  int64_t block_without_update;  // the last that stood still; -1: none yet
  int64_t skipped_updates;
};

// What became of one root at its last refresh.
struct RootStatus {
  int64_t ticket;  // of the step of the refresh; 0: none yet
  RootKind kind;
  RootFailure failure;
  int32_t iterations;
  int32_t converged;
  int32_t solver_info;
  int32_t diagonal_input;
};

struct Description {
  int32_t device_count;
  int32_t driver_version;  // as of CUDA: 1000 * major + 10 * minor; 0: none
  int32_t runtime_version;
  char unavailable_reason[512];  // "": usable
};

struct Table {
  int32_t interface_number;
  int32_t block_bytes, settings_bytes, args_bytes, report_bytes;  // sizeof of the structs

  void (*describe)(Description* out);
  Result (*create)(const EngineDesc* desc, Engine** out);
  void (*destroy)(Engine* engine);  // waits for its work
  void* (*state)(Engine* engine);   // the arena of create
  // The state as before the first step: of all owned blocks and the counters (block -1), or of the factor matrices,
  // inverse roots and diagonal flags of one. Ordered on the stream.
  Result (*initialize)(Engine* engine, void* arena, int64_t block, void* stream);
  // Enqueues a step, with its number in *ticket. It waits for nothing and allocates nothing.
  Result (*step)(Engine* engine, const StepArgs* args, int64_t* ticket);
  Result (*is_capturing)(Engine* engine, void* stream, int32_t* captured);
  // Copies the report of the steps so far; waits for the step with this ticket (0: for none).
  Result (*read_report)(Engine* engine, int64_t ticket, StepReport* out);
  // By factor matrix, in the order of the plan: of steps that take() has waited for.
  const RootStatus* (*roots)(Engine* engine);
  // By block of this rank with root_async, its state snapshot_step: as left by the steps that take() has waited for, or
  // as found by read_snapshot_steps, which reads an arena in the order of the stream, and waits for it.
  const int64_t* (*snapshot_steps)(Engine* engine);
  Result (*read_snapshot_steps)(Engine* engine, const void* arena, void* stream);
  // Copies in the order of the stream, and waits for them.
  Result (*download)(Engine* engine, void* host, const void* device, int64_t bytes, void* stream);
  Result (*upload)(Engine* engine, void* device, const void* host, int64_t bytes, void* stream);
  // Memory of the device for exchanges between ranks that the host takes part in: at least this many bytes.
  Result (*staging)(Engine* engine, int64_t bytes, void** out);
};

// The plugin's one symbol is a function of this type.
using PluginFunction = const Table* (*)();

}  // namespace shampoo::cuda
