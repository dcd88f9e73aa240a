// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/kernel_tables.h"

// Functions that enqueue the kernels of a step or an export on a stream, grouped by source file. In a rejected step,
// all kernels run, but they write neither outputs nor state. They still write the report, and the headers that report
// the rejection to other ranks. If a step is skipped but not rejected (StepState::rejected and StepState::go are 0),
// the kernels write outputs that leave the parameters unchanged.
namespace shampoo::cuda {

// begin.cu
// Copies the addresses of the caller's buffers to the device.
cudaError_t SetBuffers(cudaStream_t stream, const Tables& tables, const Buffers* buffers, int32_t count);
// Copies the tasks of all blocks to the device. Call this only if Tables::tasks is not nullptr.
cudaError_t SetTasks(cudaStream_t stream, const Tables& tables, const RootTask* tasks);
// Begins a step. Rejects the step if the host reports a failure (StepArgs::failure), or if the host has not
// acknowledged an earlier rejection (StepArgs::acknowledged_rejections).
cudaError_t BeginStep(cudaStream_t stream, const Tables& tables, int64_t ticket, const StepArgs& args);
// Computes the scalars of the groups. Rejects the step if a step counter or the value of a bound key is out of range,
// or if, for the actual step number of a group, a block may need another RootTask or DirectionRule than for the
// expected number. expected: by group, the step number for which the host has prepared the launches; 0: the group is
// not active. narrowest: by group, the narrowest computation dtype of its blocks. any_task: see StepArgs.
cudaError_t BeginGroups(cudaStream_t stream, const Tables& tables, const DeviceSettings* settings,
                        const int64_t* expected, const Dtype* narrowest, bool any_task);
// Ends a step or an export: writes the step counters, the report and, if `refreshed` is true, the statuses of the
// roots. If reports_counters is true, also reports the counters of the blocks (Table::block_counters).
cudaError_t EndStep(cudaStream_t stream, const Tables& tables, bool reports_counters, bool refreshed);
// Copies the counters of blocks (Table::block_counters) from an arena to host memory.
cudaError_t ReportBlockCounters(cudaStream_t stream, const Tables& tables, const char* arena);
// Copies the whole state from state_in to state_out.
cudaError_t CopyState(cudaStream_t stream, const Tables& tables, int64_t bytes);

// initial.cu
// Initializes blocks [first, first + count). Sets factor matrices and snapshots to 0, inverse roots to the group's
// initial value, and diagonal flags (HostRootHeader::may_be_diagonal) to 1. With methods that work in eigenbases, sets
// the eigenbases to I and kl_scale to the group's initial value. With these methods, E and V are stored in the
// coordinates of the eigenbases, and are also set to 0. Sets gradient_count and radius to 0. If the second moment of
// the direction has one mean for each row or column, sets these means to 0, too.
cudaError_t InitializeFactors(cudaStream_t stream, const Tables& tables, char* arena, int64_t first, int64_t count,
                              const InitialStates* initial_by_group);

// check.cu
// Computes for each tile the largest magnitude of its gradient and, with coupled weight decay, of its parameter.
cudaError_t ScanGradients(cudaStream_t stream, const Tables& tables);
// Checks for each block that the host has prepared the right task, that the inputs are finite, and that no state would
// overflow. Then decides which blocks are skipped and whether the step is rejected. any_task: see StepArgs; if true,
// factor matrices are scanned. has_tasks: whether SetTasks() was called for this step. If false, the task that the host
// has prepared is RootTask::kNone for each block with root_async or with a method that works in eigenbases.
cudaError_t CheckBlocks(cudaStream_t stream, const Tables& tables, bool any_task, bool has_tasks);

// agree.cu
// Writes this rank's segment for an agreement of shards, an exchange in which shard ranks agree on a step.
// scalars_hash: see StepArgs. place: RoundHeader::place of this agreement (StepArgs::shard_place).
cudaError_t WriteShardSegment(cudaStream_t stream, const Tables& tables, uint64_t scalars_hash, int64_t place);
// Compares the segments of the shard ranks. Rejects the step if another shard rank rejects it or makes a different
// step. Skips the step if another shard rank skips it. If the step is not rejected, activates the groups that are
// active on another shard rank.
cudaError_t CompareShardSegments(cudaStream_t stream, const Tables& tables, int64_t place);

// gather.cu, with shard_mode=gather. To pack elements is to copy them to the exchange buffers, slice by slice. `tiles`
// is the range of Tables::slice_tiles that a function processes.
// Activates the blocks and the groups for which some shard rank has a gradient, and deactivates all others. An active
// group with count_empty_steps stays active without gradients. Called after the first agreement of shards.
cudaError_t TakeAgreedGradients(cudaStream_t stream, const Tables& tables);
// Packs the gradients and parameters of this rank's shards for the owners of the blocks.
cudaError_t PackShards(cudaStream_t stream, const Tables& tables, const TileRange& tiles);
// Unpacks the slices that this rank has received as the owner of their blocks, and writes the whole blocks.
cudaError_t UnpackWhole(cudaStream_t stream, const Tables& tables, const TileRange& tiles);
// Packs the updates of this rank's blocks for the ranks that hold the parameters.
cudaError_t PackUpdates(cudaStream_t stream, const Tables& tables, const TileRange& tiles);
// Writes the outputs of this rank's shards from the updates that this rank has received.
cudaError_t ApplySlices(cudaStream_t stream, const Tables& tables, const TileRange& tiles);

// parameter_hash.cu
// Computes a hash of each parameter if the step compares parameters (verify_replicas). The kernels check this
// condition, so each replay of a captured step checks it again. A hash does not depend on the order of the threads.
cudaError_t HashParameters(cudaStream_t stream, const Tables& tables, int32_t count);

// factors.cu
// Writes G (StepScalars) to the first buffer of tensors (BatchTables::first), as contiguous tensors.
cudaError_t LoadGradients(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);
// The shape of a tensor, viewed as (before, d, after): a dim of length d, and the products of the dims before and after
// this dim.
struct Unfolding {
  int64_t before, d, after;
};
// Copies tensors of a shape group so that the middle dim comes first. If `back` is true, moves this dim from the first
// place back to the middle. count: number of tensors. stride: elements between the starts of consecutive tensors.
cudaError_t MoveDim(cudaStream_t stream, Dtype computation, const void* from, void* to, int64_t count, int64_t stride,
                    const Unfolding& unfolding, bool back);
// Computes F <- factor_decay F + factor_weight C, and takes snapshots. On entry, the lower triangles of the batch's
// matrices contain C, the products of the gradients with themselves. After the update, replaces C by the matrices that
// later kernels of the step read:
//   - F or the snapshot of F, if the step computes the block's roots;
//   - the async roots, if the step begins to use them;
//   - otherwise X, if the block is preconditioned.
// With factor_correction=kl, UpdateWhitenedFactors() has already updated F.
cudaError_t UpdateFactors(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);
// Fills the batch's matrices with X.
cudaError_t LoadInverseRoots(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);
// With factor_correction=kl: computes F_k <- factor_decay F_k + factor_weight C_k for dim k. Whitened gradients are
// gradients contracted with the inverse roots of all dims except k. They are in the second buffer of tensors if the
// number of other dims with a factor matrix is odd, otherwise in the first buffer. Their products with themselves, C_k,
// are in the lower triangles of the batch's matrices. If F_k of a block might overflow, clears BlockWork::states_fit,
// so that the step changes no further state of this block. The factor matrices of the dims before k are already
// updated.
cudaError_t UpdateWhitenedFactors(cudaStream_t stream, const Tables& tables, const BatchTables& batch,
                                  Dtype computation, int32_t k);
// For each block whose snapshot this step takes, sets the block's state snapshot_step. Also records the diagonal flags
// (Tables::async_flags) and the divisor (Tables::async_divisors) for the job (AsyncRoots) that will compute the roots.
cudaError_t RecordSnapshots(cudaStream_t stream, const Tables& tables, const BatchTables& batch);
// Stores X and the diagonal flags of blocks whose roots were computed. If the computation of a root has failed, copies
// the stored X to the batch's matrix instead. ticket: the number of the step, for RootStatus::ticket.
cudaError_t StoreRoots(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation,
                       int64_t ticket);
// Writes to `flags`, by root, the address of the root's diagonal flag.
cudaError_t FindFlags(cudaStream_t stream, const Tables& tables, const int32_t** flags);

// direction.cu
// Updates V and the average E of the gradients (StepScalars). Replaces G by the filtered gradient H or, if the step
// does not precondition the block, by the direction. With method `sign`, also writes the signs of H to the second
// buffer of tensors.
cudaError_t FilterGradients(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);
// Computes the norm of P and the scale of grafting, and checks whether P and the results of the update are finite and
// fit their dtypes.
cudaError_t CheckDirections(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);
// Applies decay, momentum and the update. Writes the outputs or, for blocks that are exchanged with other ranks, the
// data of the exchange.
cudaError_t ApplyDirections(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);

// norm_control.cu
// With norm_control or update_floor: replaces P by the old parameter minus the new one. CheckDirections() calls this
// function.
cudaError_t ControlNorms(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);

// average.cu
// With averaging: replaces P by the old parameter minus the new one. CheckDirections() calls this function.
cudaError_t MoveIterates(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);
// With averaging=schedule_free: adds the weight of the step's iterate to the state lr_sum of each block in an active
// group. With weight_ema: moves the average of a block towards the parameter if the step has not updated the block.
// Called only if some group sets averaging=schedule_free or weight_ema.
cudaError_t AdvanceAverages(cudaStream_t stream, const Tables& tables);
// In an export of several ranks: for the blocks that this rank owns in a bucket, writes to the exchange buffers the
// differences that the export adds to the parameters. blend: see StepArgs.
cudaError_t SendAverages(cudaStream_t stream, const Tables& tables, int32_t bucket, double blend);
// One output of an export without exchanges (ExportArgs).
struct ExportedParam {
  const void* param;
  void* weights;  // receives the output; nullptr: the output is not written
  double factor;  // the result of ExportFactor()
};
// Writes the average of each parameter, or the parameter itself if there is no average. arena: the state that is read.
// params: by parameter.
cudaError_t ExportAverages(cudaStream_t stream, const Tables& tables, const char* arena, const ExportedParam* params,
                           int32_t count);

// exchange.cu
struct ExchangeArgs {
  int64_t at;  // offset of the segments in the exchange buffers
  int64_t segment_bytes;
  uint64_t inputs_hash, scalars_hash;  // see StepArgs
  int64_t place;                       // RoundHeader::place of the exchange
};
// Writes the header of this rank's segment.
cudaError_t WriteHeader(cudaStream_t stream, const Tables& tables, const ExchangeArgs& args);
// Rejects the step if another rank has rejected it or makes a different step.
cudaError_t CompareHeaders(cudaStream_t stream, const Tables& tables, const ExchangeArgs& args);
// Writes the outputs of all blocks of a bucket, from all owners.
cudaError_t ApplyExchanged(cudaStream_t stream, const Tables& tables, int32_t bucket);

}  // namespace shampoo::cuda
