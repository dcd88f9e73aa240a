// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/kernel_tables.h"

// The kernels of a step, in its order. Each enqueues itself on the stream; a step that is refused goes
// through all of them, and they write nothing; one that is skipped (StepState::go is 0) writes its outputs.
namespace shampoo::cuda {

// begin.cu
cudaError_t SetBuffers(cudaStream_t stream, const Tables& tables, const Buffers* buffers, int32_t count);
// By block. Only with root_async.
cudaError_t SetTasks(cudaStream_t stream, const Tables& tables, const RootTask* tasks);
// acknowledged_rejections: see StepArgs. failure: why this rank's host cannot make the step.
cudaError_t BeginStep(cudaStream_t stream, const Tables& tables, int64_t ticket, int64_t acknowledged_rejections,
                      Code failure);
// The scalars of the groups; refuses counters and bound numbers that are out of range. narrowest: by group, of the
// computation dtypes of its blocks.
cudaError_t BeginGroups(cudaStream_t stream, const Tables& tables, const DeviceSettings* settings,
                        const int64_t* expected, const Dtype* narrowest, bool has_tasks);
// Counters, the report, and what became of roots that were refreshed. has_tasks: of blocks of this rank.
cudaError_t EndStep(cudaStream_t stream, const Tables& tables, bool has_tasks, bool refreshed);
// The states snapshot_step of an arena, to the host.
cudaError_t ReportSnapshotSteps(cudaStream_t stream, const Tables& tables, const char* arena);
// Every byte of the state, where it is to be written elsewhere.
cudaError_t CopyState(cudaStream_t stream, const Tables& tables, int64_t bytes);

// initial.cu
// Factor matrices 0, inverse roots as the group begins, diagonal flags 1: of blocks [first, first + count).
cudaError_t InitializeFactors(cudaStream_t stream, const Tables& tables, char* arena, int64_t first, int64_t count,
                              const InitialInverse* initial_by_group);

// check.cu
cudaError_t ScanGradients(cudaStream_t stream, const Tables& tables);
// Every block by itself, then all together: what is skipped, and whether the step is refused. has_tasks: SetTasks has
// given the tasks of the step; otherwise a block with root_async has none.
cudaError_t CheckBlocks(cudaStream_t stream, const Tables& tables, bool has_tasks);

// factors.cu
// G, dense, into the first buffer of the batch.
cudaError_t LoadGradients(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);
// Between tensors of a class: dim k comes first (or goes back to its place).
struct Unfolding {
  int64_t before, d, after;
};
cudaError_t MoveDim(cudaStream_t stream, Dtype computation, const void* from, void* to, int64_t count, int64_t stride,
                    const Unfolding& unfolding, bool back);
// F <- keep F + add C, C in the lower triangles of the batch's matrices, which are then given what comes next: F, or
// its snapshot, where the block's roots are due (or what was computed of it ahead), else X where they are wanted.
// Snapshots are taken.
cudaError_t UpdateFactors(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);
// What the roots of the batch's snapshots are computed with, and that they are waiting.
cudaError_t RecordSnapshots(cudaStream_t stream, const Tables& tables, const BatchTables& batch);
// X and the flags of blocks whose roots were due, where they could be computed; else the matrix is the previous X.
cudaError_t StoreRoots(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation,
                       int64_t ticket);
// In the order of the roots: where the flag of each is, that it has been diagonal so far.
cudaError_t FindFlags(cudaStream_t stream, const Tables& tables, const int32_t** flags);

// direction.cu
// E, V and H, which takes the place of G; before the first preconditioned step the direction itself.
cudaError_t FilterGradients(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);
// The norm of P, the factors of grafting, and whether the direction can be used.
cudaError_t CheckDirections(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);
// Decay, momentum and the outputs, or what is exchanged.
cudaError_t ApplyDirections(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation);

// exchange.cu
struct ExchangeArgs {
  int64_t segment_bytes;
  uint64_t inputs_hash, scalars_hash;

  int64_t place;
};
cudaError_t WriteHeader(cudaStream_t stream, const Tables& tables, const ExchangeArgs& args);
// Refuses the step where a rank has, or makes another.
cudaError_t CompareHeaders(cudaStream_t stream, const Tables& tables, const ExchangeArgs& args);
// Outputs of all blocks of a bucket, whoever owns them.
cudaError_t ApplyExchanged(cudaStream_t stream, const Tables& tables, int32_t bucket);

}  // namespace shampoo::cuda
