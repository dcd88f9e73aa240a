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
#include "core/plan/slice_runs.h"
#include "core/roots/root.h"
#include "core/rules/bound_scalars.h"
#include "core/rules/rank_difference.h"
#include "core/rules/schedule.h"

// The interface between libshampoo.so (the library) and libshampoo_cuda.so (the plugin): one table of C functions,
// whose arguments are plain structs. Both libraries are built from the same sources. libshampoo.so rejects a plugin
// that has another interface number or structs of another size. An `Engine` is the plugin's part of one optimizer: its
// streams, its handles and its device memory.
namespace shampoo::cuda {

// Increase this number when you change a declaration in this file, or a struct of the plan that this file uses.
inline constexpr int32_t kInterface = 26;
inline constexpr char kPluginSymbol[] = "shampoo_cuda_plugin";

// What a function of the plugin returns. `text` is the error message, or nullptr if `code` is kOk. The message is valid
// until the thread calls the plugin again.
struct Result {
  Code code;
  const char* text;
};

// A hyper-parameter that a step may read from device memory.
struct DeviceScalar {
  const void* value = nullptr;  // nullptr: use the number in the settings
  Dtype dtype = Dtype::kF32;    // kF32 or kF64
};

// The current settings of a group, and the device memory from which a step reads the values of bound keys instead.
struct DeviceSettings : GroupSettings {
  DeviceScalar bound[kBindableKeys];
};
static_assert(std::is_trivially_copyable_v<DeviceSettings>);

struct ParamOfPlan {
  int64_t elements;
  Dtype param_dtype, grad_dtype, out_dtype, copy_dtype;
  int32_t group;
  Fan fan;
};

// One exchange between shard ranks. send_at and recv_at are offsets in the engine's exchange buffers.
struct GatherExchange {
  const size_t* send;  // by shard rank: bytes that this rank sends to that rank
  const size_t* recv;  // by shard rank: bytes that this rank receives from that rank
  int64_t send_at, recv_at;
  int64_t segment;  // size of the segments of an all-gather, the first of which is at recv_at; 0: an all-to-all
};

// Consecutive tiles in GatherView::tiles.
struct TileRange {
  int64_t first, count;
};

// Bytes to copy within the exchange buffers.
struct GatherCopy {
  int64_t from, to, bytes;
};

// The exchanges of a bucket, with shard_mode=gather. `collect` sends gradients and parameters to the owners of the
// blocks, before the computation. `deliver` sends the updates back to the ranks that hold the parameters.
struct GatherBucket {
  GatherExchange collect, deliver;
  TileRange sent;   // the slices that this rank sends to owners in its own replica
  TileRange held;   // all slices that this rank holds; the owners of the blocks may be in any replica
  TileRange owned;  // the slices of the blocks that this rank owns
  // How to copy received updates to this replica's segment in the exchange between replicas, which follows `deliver`.
  // There are no copies unless there are several replicas and an all-gather delivers the updates.
  const GatherCopy* copies;
  int64_t copy_count;
};

struct DeviceRounding;
struct DeviceSlice;
struct DeviceTile;

// The tables for shard_mode=gather. The engine copies all of them except `buckets` to the device.
struct GatherView {
  const GatherBucket* buckets;  // PlanView::bucket_count elements
  const DeviceSlice* slices;
  const RunSeries* series;
  const DeviceTile* tiles;  // DeviceTile::block is the index of a slice
  int64_t slice_count, series_count, tile_count;
  // By block: offsets of the whole block's gradient and parameter in the exchange buffers. -1: another rank owns the
  // block.
  const int64_t* gradient_at;
  const int64_t* param_at;
  int64_t bytes;  // bytes of the exchange buffers that shard_mode=gather uses
};

// How the directions of a group are orthogonalized, with method muon or with the key soap_post.
struct NewtonSchulz {
  // With orthogonalization=exact, coefficients.entries is not used, because ExactEntryOf() returns the coefficients.
  // coefficients.divisor is then 1.
  NsCoefficients coefficients;
  NsNorm norm;
  int64_t steps;
};

// A view of a plan. The plan must outlive the engine.
struct PlanView {
  const Block* blocks;
  int64_t block_count;
  const unsigned char* owned;  // by block: 1 if this rank updates the block, otherwise 0
  const ParamOfPlan* params;
  int32_t param_count;
  int32_t group_count;
  const DeviceSettings* groups;       // the settings at the time when the plan was made
  const NewtonSchulz* newton_schulz;  // by group
  int64_t state_bytes;
  int32_t bucket_count;  // at least 1
  // By bucket: bytes of one rank's segment in the exchange of the bucket between replicas. Not used with one replica.
  const int64_t* bucket_segment_bytes;
  int32_t exchange_sets;      // sets of exchange buffers; bucket k uses set k % exchange_sets
  int64_t replica_set_bytes;  // bytes of the segments of all replicas in one set
  int32_t replica_rank, replica_world;
  int32_t replicas_agree_first;  // 1: PlanData::replicas_agree_first() is true
  int32_t exchange_params;       // 1: replicas exchange new parameters instead of updates
  int64_t verify_replicas;       // steps between comparisons of the parameters; 0: parameters are not compared
  // The agreement of shards: the exchange in which shard ranks agree on a step. shard_world is 1 if a step has no such
  // exchange.
  int32_t shard_rank, shard_world;
  int64_t shard_segment_bytes;
  const GatherView* gather;         // nullptr unless shard_mode=gather; must outlive the engine
  const DeviceRounding* roundings;  // by block; nullptr: all groups round to nearest
  uint64_t rounding_seed;
};

// The arguments of Table::create.
struct EngineDesc {
  PlanView plan;
  int32_t device;
  HostAllocator allocator;
  void* stream;  // memory is allocated in the order of this stream
  void* state;   // the arena; nullptr: the engine allocates it
  int32_t tf32;  // 1: precondition_math=tf32
  int32_t track_times;
  // Size of each of the two HostRootMemory::buffers; 0: no async roots are computed on the host.
  int64_t host_root_bytes;
  // Bytes of pinned memory for exchanges over communicators that take host memory; 0: there is no such communicator.
  int64_t host_exchange_bytes;
};

struct Engine;

// The caller's all-gather, in the order of a stream. `buffer` has the segments of all ranks. Returns 0 on success.
struct DeviceGather {
  void* user;
  int32_t (*gather)(void* user, void* buffer, int64_t segment_bytes, void* stream);
};

// The caller's all-to-all between shard ranks, in the order of a stream. `exchange` returns 0 on success. It is nullptr
// if the caller has no all-to-all.
struct DeviceAllToAll {
  void* user;
  int32_t (*exchange)(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                      void* stream);
};

// The arguments of Table::step.
struct StepArgs {
  void* stream;
  const DeviceSettings* groups;
  const Buffers* buffers;        // by parameter: device addresses
  int32_t buffers_changed;       // 1: `buffers` has changed since the last step
  const void* state_in;          // the arena that the step reads
  void* state_out;               // the arena that the step writes; may be state_in
  const int64_t* expected_step;  // by group: the number t of the step that the host expects; 0: the group is not active
  // By block: what the step does with the roots of the block; kNone if the block has no gradient or if another rank
  // updates it. The device rejects the step if the state of the block requires a different task.
  const RootTask* tasks;
  const int64_t* block_counters;  // by block: its state snapshot_step or gradient_count before the step
  // 1: a block of this rank has a task, or a block of another rank has a regular task (IsRegularTask). A block of
  // another rank is ignored if its method works in eigenbases, because this rank does not know the block's task.
  int32_t any_task;
  int32_t any_refresh;  // 1: this rank refreshes some roots in this step
  int32_t captured;     // 1: the stream is being captured into a graph; each replay determines its own step number
  // The number of rejections that the host has returned as errors. If the device has counted more, this step is stale,
  // and is rejected. A replay uses the largest value of this member in all earlier calls of `step`.
  int64_t acknowledged_rejections;
  // The following members are used only if there are several replicas.
  DeviceGather gather;
  uint64_t inputs_hash;  // hash of the inputs that must be equal on all replicas
  int64_t place;         // RoundHeader::place of the first exchange; each later exchange adds 1
  // The following members are used only if there is an agreement of shards.
  DeviceGather shard_gather;
  DeviceAllToAll shard_all_to_all;  // with shard_mode=gather
  int64_t shard_place;              // RoundHeader::place of the first agreement; each later agreement adds 1
  // The following members are used if there are several replicas or an agreement of shards.
  uint64_t scalars_hash;  // hash of the hyper-parameters that the host knows
  // The reason why this rank cannot make the step; kOk: this rank can make the step. A rank that cannot make the step
  // still joins the exchanges to report the failure there, and does nothing else.
  Code failure;
  // 1: the last call failed while it enqueued this step. This call uses the same step number (StepReport::ticket), and
  // `failure` has the error of the last call.
  int32_t again;
  // 1: instead of a step, the ranks export averages (shampoo_optimizer_export). They make the exchanges of a step, in
  // which the owners of blocks send what an export adds to the parameters. In `buffers`, `param` is the parameter and
  // `out` receives the average. If `out` is nullptr, the average is not written. No state changes. Tickets of exports
  // are negative, so that the tickets of steps count the steps.
  int32_t exports;
  double blend;  // as in ExportArgs
};

// An export of averages (shampoo_optimizer_export) that needs no exchange with other ranks.
struct ExportArgs {
  void* stream;
  const Buffers* buffers;  // by parameter: device addresses
  void* const* weights;    // by parameter: device address of the output; nullptr: no output
  const void* state;       // the arena that the export reads
  double blend;            // the weight of the average in the output, as in ExportFactor()
};

// The reason why a step was rejected and changed nothing. Names in backticks are members of StepReport.
enum class Rejection : int32_t {
  kNone,
  kGradientNotFinite,  // the gradient has the NaN or infinity `value`, at `element`
  kParamNotFinite,     // the parameter has the NaN or infinity `value`, at `element`
  kElementTooLarge,    // an element of G is too large for the dtype that must hold G
  kMomentTooLarge,     // the second moment V would overflow
  kProductTooLarge,    // C_k, G contracted with itself over all dims except k = `dim`, would overflow
  kFactorTooLarge,     // factor matrix k = `dim` would overflow, although C_k fits
  kFactorNotFinite,    // factor matrix `dim` of the state contains `value`, NaN or infinity
  kCounter,            // the group's step counter is `value`, which is out of range
  // The host prepared the step for a state that differs from the state in the arena. If `block` is -1, the step
  // counters differ, and `value` is the counter in the arena. Otherwise, the state of `block` requires another task.
  kSchedule,
  kBoundScalar,  // the bound scalar number `dim` (BindableName) of the group is `value`, which is not valid
  kOtherRank,    // the rank `rank` rejected the step or has different inputs; see `difference`
};

using shampoo::RankDifference;

// The device's report on its steps, in host memory. All counts are 0 when the engine is created.
struct StepReport {
  // Number of the last step or export that this report covers. Steps have the numbers 1, 2, and so on. Exports
  // that the function `step` enqueues have the numbers -1, -2, and so on. A replay of a graph has the number of the
  // call that was captured.
  int64_t ticket;
  // Number of rejected steps, except stale steps (StepArgs::acknowledged_rejections). The members from `rejection` to
  // `among_shards` describe the last rejection.
  int64_t rejections;
  Rejection rejection;
  int32_t group;
  int64_t rejected_ticket;
  int64_t block;  // index in the plan; -1: no block
  int32_t dim;
  RankDifference difference;
  int64_t element;  // index in the caller's buffer
  double value;
  int32_t rank;
  int32_t state_at_fault;    // 1: the gradient is valid, but a state is not valid or would overflow
  int32_t among_shards;      // 1: `rank` is a shard rank. 0: it is a replica rank
  int64_t steps;             // steps made
  int64_t skipped_steps;     // steps that skipped all blocks because of on_nonfinite=skip_step
  int64_t nonfinite_blocks;  // blocks skipped by the gradient check, and skipped updates
  // Of the last step in which the gradient check skipped a block: the first skipped block, in the order of the plan.
  // Valid only after such a step.
  int64_t skipped_block;
  // Of the last step in which the update of a block was skipped: the first block with a skipped update, in the order
  // of the plan. Valid only after such a step.
  int64_t block_without_update;
  int64_t skipped_updates;
};

// The outcome of the last refresh of one root.
struct RootStatus {
  int64_t ticket;  // number of the step that refreshed the root; 0: no step has refreshed it yet
  RootKind kind;
  RootFailure failure;
  int32_t iterations;
  int32_t converged;
  int32_t solver_info;
  int32_t diagonal_input;
  double epsilon, shift;   // as in RootOutcome
  double error, residual;  // as in RootResiduals; 0 unless track_root_residuals is set
};

// The method with which the device computes a single root again if the computation of a batch of roots has failed for
// this root: `eigen` (kSingle) or `newton` (kNewton).
enum class RetryMethod : int32_t { kSingle, kNewton };

// A root to compute again. The matrix is in host memory, with both triangles.
struct RootRetry {
  void* stream;
  const DeviceSettings* settings;  // of the group
  RetryMethod how;
  int64_t n;
  int64_t root;  // Block::root
  Dtype computation;
  Dtype root_dtype;
  double limit;    // the largest magnitude that an element of the root may have
  double divisor;  // the matrix is divided by this number before trace_scaling is applied
  void* matrix;    // in the computation dtype; replaced by the root if the status reports no failure
};

// Async roots that the library computes on the host (root_device=host).
//
// A job computes the roots of several snapshots. The thread that makes the steps calls start_host_roots to create a job
// for all snapshots that one step has taken. If a step needs the roots of snapshots for which there was no job, for
// example after a checkpoint was loaded, the thread creates a job for these snapshots. Another thread of the library
// makes the other calls for the job, in this order:
// - begin_host_roots;
// - for each chunk of roots: fetch_host_roots, wait_for_host_roots, return_host_roots;
// - end_host_roots.
// The step that uses the roots is enqueued after end_host_roots has returned. In that step, the blocks of the job must
// have the task kAdoptDeviceRoots.
struct HostRootMemory {
  char* buffers[2];
  int64_t bytes;  // of each buffer
};
struct HostRootHeader {
  RootStatus status;
  int32_t may_be_diagonal;
};
// The place of a root in pinned memory.
struct HostRoot {
  int64_t block;
  int32_t dim;
  HostRootHeader* header;
  void* matrix;  // the factor matrix, later the root; both triangles, in the computation dtype
};
struct HostRootStart {
  void* stream;
  const RootTask* tasks;  // by block
  RootTask task;          // the job computes the roots of the blocks that have this task
  // The arena with the snapshots. start_host_roots copies them to the memory that fetch_host_roots reads. nullptr: the
  // step that was enqueued last has already copied the factor matrices to this memory.
  const void* arena;
};

// What Table::describe reports about CUDA on this machine.
struct Description {
  int32_t device_count;
  int32_t driver_version;  // as in CUDA: 1000 * major + 10 * minor; 0: no driver
  int32_t runtime_version;
  char unavailable_reason[512];  // "": CUDA can be used
};

// The functions of the plugin.
struct Table {
  int32_t interface_number;
  int32_t block_bytes, settings_bytes, args_bytes, report_bytes;  // sizeof of the structs

  void (*describe)(Description* out);
  Result (*create)(const EngineDesc* desc, Engine** out);
  void (*destroy)(Engine* engine);  // waits for the engine's work
  void* (*state)(Engine* engine);   // returns the arena that create used
  // Sets states to the values that they have before the first step, in the order of the stream. If `block` is -1, sets
  // the states of all owned blocks and the counters. If `block` is an index, sets the factor matrices of this block and
  // the states that belong to them.
  Result (*initialize)(Engine* engine, void* arena, int64_t block, void* stream);
  // The host calls this function before each step that is not captured. tasks: the tasks of the step, by block. Waits
  // until the thread that enqueues async roots (root_device=device) has enqueued the roots that the step uses, and the
  // roots whose copied factor matrices the step overwrites. Returns the first error of the thread, but only once.
  Result (*await_async_roots)(Engine* engine, const RootTask* tasks);
  // Enqueues a step and writes its number to *ticket. Does not allocate. Waits only in the caller's collectives and in
  // refreshes: coupled iterations wait (docs/adr/0027), and eigensolvers of cuSOLVER may wait.
  Result (*step)(Engine* engine, const StepArgs* args, int64_t* ticket);
  // Enqueues an export, for a plan of one replica without gathered blocks. For other plans, see StepArgs::exports.
  Result (*export_averages)(Engine* engine, const ExportArgs* args);
  Result (*is_capturing)(Engine* engine, void* stream, int32_t* captured);
  // Waits at least for the step or export with this ticket, and copies the report of all steps so far. If the ticket is
  // 0, does not wait.
  Result (*read_report)(Engine* engine, int64_t ticket, StepReport* out);
  // Returns, by group, the group's step counter after the last step; 0: the group was not active, or the step changed
  // nothing. With the key count_empty_steps, the negated counter means that an active group had no gradients: without
  // gathered blocks, none on this rank; with gathered blocks, none on any shard rank. Valid only for steps that
  // read_report has waited for, and only with an agreement of shards, because only an agreement activates groups that
  // are not active according to the host.
  const int64_t* (*counted_steps)(Engine*);
  // Returns, by factor matrix in the order of the plan, the status of the root after the steps that read_report has
  // waited for.
  const RootStatus* (*roots)(Engine* engine);
  // Returns, by block, its state snapshot_step (with root_async) or gradient_count (with a method that works in
  // eigenbases); 0: this rank has neither state of the block. The values are those after the steps that read_report has
  // waited for, or those that read_block_counters has read. Valid only if a block of this rank has one of these states.
  const int64_t* (*block_counters)(Engine* engine);
  // Reads, from an arena, the states whose values block_counters returns. Waits for the stream.
  Result (*read_block_counters)(Engine* engine, const void* arena, void* stream);
  // download and upload copy in the order of the stream, and wait for the copy.
  Result (*download)(Engine* engine, void* host, const void* device, int64_t bytes, void* stream);
  Result (*upload)(Engine* engine, void* device, const void* host, int64_t bytes, void* stream);
  // Computes one root again on the device, and waits for it. The root belongs to a block of this engine.
  Result (*retry_root)(Engine* engine, const RootRetry* retry, RootStatus* out);
  // The following functions are for async roots on the host. See HostRootMemory for the order of the calls.
  HostRootMemory (*host_root_memory)(Engine* engine);
  Result (*start_host_roots)(Engine* engine, const HostRootStart* start, int64_t* job);
  Result (*begin_host_roots)(Engine* engine, int64_t job);
  // Enqueues copies of the matrices and of HostRootHeader::may_be_diagonal from the device to the addresses in
  // `roots`. These addresses are in HostRootMemory::buffers[buffer].
  Result (*fetch_host_roots)(Engine* engine, const HostRoot* roots, int64_t count, int32_t buffer);
  // Waits for the last copies to HostRootMemory::buffers[buffer].
  Result (*wait_for_host_roots)(Engine* engine, int32_t buffer);
  // Enqueues copies of statuses, and of the roots that have not failed, to the device.
  Result (*return_host_roots)(Engine* engine, const HostRoot* roots, int64_t count);
  Result (*end_host_roots)(Engine* engine, int64_t job);
  // Provides at least `bytes` bytes of device memory for exchanges between ranks outside of steps, for example when an
  // optimizer is created or a checkpoint is written.
  Result (*staging)(Engine* engine, int64_t bytes, void** out);
  // exchange_memory returns the pinned memory of EngineDesc::host_exchange_bytes bytes. The next two functions copy in
  // the order of the stream. fetch_exchange copies from the device to `offset` in the pinned memory, and waits for the
  // copy. return_exchange copies from `offset` in the pinned memory to the device, and does not wait.
  char* (*exchange_memory)(Engine* engine);
  Result (*fetch_exchange)(Engine* engine, int64_t offset, const void* from, int64_t bytes, void* stream);
  Result (*return_exchange)(Engine* engine, void* to, int64_t offset, int64_t bytes, void* stream);
  // Returns, by StepPhase, the seconds in all steps that read_report has waited for. All are 0 if track_times is 0.
  const double* (*seconds)(Engine* engine);
  // Returns, by parameter, the hashes of the last comparison that found a difference (RankDifference::kParameters).
  const uint64_t* (*parameter_hashes)(Engine* engine);
};

// The plugin exports one symbol, kPluginSymbol: a function of this type.
using PluginFunction = const Table* (*)();

}  // namespace shampoo::cuda
