/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SHAMPOO_NCCL_H
#define SHAMPOO_NCCL_H

#include <nccl.h>
#include <shampoo/shampoo.h>

/**
 * @file
 * shampoo_nccl.h - communicators of libshampoo over NCCL: fills shampoo_comm_ops from an ncclComm_t.
 *
 * This header is an adapter in C99 and C++ for NCCL 2.14 and later. It is compiled with the caller's <nccl.h>, and
 * calls the caller's copy of NCCL. libshampoo neither links nor ships NCCL, so the process never has a second copy of
 * NCCL. Callers that cannot compile C use shampoo_comm_from_nccl() instead.
 *
 * @code{.c}
 * shampoo_comm_ops ops;
 * shampoo_comm* comm;
 * shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
 *
 * if (shampoo_nccl_ops(nccl_comm, &ops) != ncclSuccess) return 1;
 * if (shampoo_comm_from_ops(&comm, &ops) != SHAMPOO_OK) return 1;
 * desc.device_type = SHAMPOO_CUDA;
 * desc.replica_comm = comm;
 * status = shampoo_optimizer_create(&optimizer, plan, &desc);
 * shampoo_comm_destroy(comm);  // the optimizer keeps its own reference
 * @endcode
 *
 * NCCL exchanges data in GPU memory, so the communicator is for optimizers on CUDA. An optimizer on the CPU rejects it
 * with SHAMPOO_E_UNSUPPORTED.
 *
 * The conventions of shampoo.h hold here too, with these differences and additions:
 *
 * Errors. Functions return ncclSuccess or an NCCL error code, which ncclGetErrorString() describes. They do not change
 * the message of shampoo_last_error().
 *
 * Ownership. The ncclComm_t remains owned by the caller. It must live until the shampoo_comm and every optimizer that
 * uses the shampoo_comm have been destroyed.
 *
 * Order. The optimizer enqueues its collectives in the order of the calls, on the stream of the step or on an internal
 * stream that is synchronized with the stream of the step. NCCL requires that all ranks enqueue the work of a
 * communicator in the same order. If the caller uses the communicator on another stream or thread, too, give the
 * optimizer a separate communicator: call ncclCommSplit() with the same color on all ranks.
 *
 * Threads. NCCL is called only on the thread that calls the optimizer. Do not call the optimizer between
 * ncclGroupStart() and ncclGroupEnd(), because NCCL starts no collective of a group before ncclGroupEnd().
 */

#if !defined(NCCL_VERSION_CODE) || NCCL_VERSION_CODE < 21400
#error "shampoo_nccl.h needs NCCL 2.14 or later: install a newer NCCL, or use shampoo_comm_from_nccl()"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Returns the final result of an NCCL call that has returned `result`. On a non-blocking communicator
 * (ncclConfig_t.blocking = 0), first waits until the call is no longer in progress. */
static inline ncclResult_t shampoo_nccl_finish(ncclComm_t comm, ncclResult_t result) {
  while (result == ncclInProgress) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
    if (asked != ncclSuccess) return asked;
  }
  return result;
}

/** Implements shampoo_comm_ops.all_gather. */
static inline int32_t shampoo_nccl_all_gather(void* user, const void* send, void* recv, size_t bytes_per_rank,
                                              void* stream) {
  const ncclComm_t comm = (ncclComm_t)user;
  if (comm == NULL) return (int32_t)ncclInvalidUsage;
  return (int32_t)shampoo_nccl_finish(comm,
                                      ncclAllGather(send, recv, bytes_per_rank, ncclUint8, comm, (cudaStream_t)stream));
}

/** Returns 1 if an NCCL call has failed. Returns 0 if the call has succeeded or is still in progress. */
static inline int shampoo_nccl_failed(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

/** Implements shampoo_comm_ops.all_to_all with one group of ncclSend() and ncclRecv() calls. The data that a rank sends
 * to itself is transferred in the same group. */
static inline int32_t shampoo_nccl_all_to_all(void* user, const void* send, const size_t* send_bytes, void* recv,
                                              const size_t* recv_bytes, void* stream) {
  const ncclComm_t comm = (ncclComm_t)user;
  size_t sent = 0, received = 0;
  ncclResult_t result, ended;
  int r, world = 0;
  if (comm == NULL) return (int32_t)ncclInvalidUsage;
  result = ncclCommCount(comm, &world);
  if (result == ncclSuccess) result = ncclGroupStart();
  if (result != ncclSuccess) return (int32_t)result;
  for (r = 0; r < world && !shampoo_nccl_failed(result); ++r) {
    if (send_bytes[r] > 0) {
      result = ncclSend((const char*)send + sent, send_bytes[r], ncclUint8, r, comm, (cudaStream_t)stream);
    }
    if (recv_bytes[r] > 0 && !shampoo_nccl_failed(result)) {
      result = ncclRecv((char*)recv + received, recv_bytes[r], ncclUint8, r, comm, (cudaStream_t)stream);
    }
    sent += send_bytes[r];
    received += recv_bytes[r];
  }
  /* End the group even after an error: otherwise the group would stay open for later calls of this thread. */
  ended = ncclGroupEnd();
  return (int32_t)(shampoo_nccl_failed(result) ? result : shampoo_nccl_finish(comm, ended));
}

/** Implements shampoo_comm_ops.async_error. ncclInProgress is not an error. */
static inline int32_t shampoo_nccl_async_error(void* user) {
  const ncclComm_t comm = (ncclComm_t)user;
  ncclResult_t error = ncclSuccess, asked;
  if (comm == NULL) return (int32_t)ncclInvalidUsage;
  asked = ncclCommGetAsyncError(comm, &error);
  if (asked != ncclSuccess) return (int32_t)asked;
  return error == ncclInProgress ? 0 : (int32_t)error;
}

/**
 * Fills ops for shampoo_comm_from_ops() from an NCCL communicator.
 *
 * The callback abort is NULL, because ncclCommAbort() frees the communicator, which the caller owns. If a collective
 * fails on a rank, the call of the optimizer returns SHAMPOO_E_COMM on this rank at once. If a CUDA call fails on a
 * rank, the call of the optimizer returns SHAMPOO_E_DEVICE or SHAMPOO_E_NOMEM. In both cases, the caller must call
 * ncclCommAbort() on every rank, because the other ranks may wait for the rank that failed. With
 * shampoo_nccl_abortable_ops(), the library calls ncclCommAbort() itself.
 *
 * @param comm a communicator of the ranks that hold the same parameters, or of the ranks that hold the shards of one
 *     copy of the parameters. It remains owned by the caller.
 * @param ops receives struct_size, user, rank, world, device_type (SHAMPOO_CUDA), and the callbacks all_gather,
 *     all_to_all and async_error.
 * @return ncclSuccess; ncclInvalidArgument if comm or ops is NULL; or the error of an NCCL call. On failure *ops is
 *     unchanged.
 */
static inline ncclResult_t shampoo_nccl_ops(ncclComm_t comm, shampoo_comm_ops* ops) {
  shampoo_comm_ops filled = SHAMPOO_COMM_OPS_INIT;
  ncclResult_t result;
  int rank = 0, world = 0;
  if (comm == NULL || ops == NULL) return ncclInvalidArgument;
  result = ncclCommUserRank(comm, &rank);
  if (result == ncclSuccess) result = ncclCommCount(comm, &world);
  if (result != ncclSuccess) return result;
  filled.user = comm;
  filled.rank = rank;
  filled.world = world;
  filled.device_type = SHAMPOO_CUDA;
  filled.all_gather = shampoo_nccl_all_gather;
  filled.async_error = shampoo_nccl_async_error;
  filled.all_to_all = shampoo_nccl_all_to_all;
  *ops = filled;
  return ncclSuccess;
}

/* Callbacks of shampoo_nccl_abortable_ops(). user is the address of the caller's ncclComm_t. */

static inline int32_t shampoo_nccl_abortable_all_gather(void* user, const void* send, void* recv, size_t bytes_per_rank,
                                                        void* stream) {
  return shampoo_nccl_all_gather(*(ncclComm_t*)user, send, recv, bytes_per_rank, stream);
}

static inline int32_t shampoo_nccl_abortable_all_to_all(void* user, const void* send, const size_t* send_bytes,
                                                        void* recv, const size_t* recv_bytes, void* stream) {
  return shampoo_nccl_all_to_all(*(ncclComm_t*)user, send, send_bytes, recv, recv_bytes, stream);
}

static inline int32_t shampoo_nccl_abortable_async_error(void* user) {
  return shampoo_nccl_async_error(*(ncclComm_t*)user);
}

static inline void shampoo_nccl_abort(void* user) {
  ncclComm_t* const comm = (ncclComm_t*)user;
  if (*comm != NULL) ncclCommAbort(*comm);
  *comm = NULL;
}

/**
 * Fills ops as shampoo_nccl_ops() does, and also sets the callback abort, which calls ncclCommAbort() and sets *comm to
 * NULL. The library calls abort if a collective of the optimizer fails on this rank, if this rank receives invalid
 * data, or if this rank fails at a point where other ranks would wait for it.
 *
 * Ranks that are connected to the aborted rank over a network then receive ncclRemoteError. NCCL does not always inform
 * ranks on the same machine: on these ranks, the caller must limit the waiting time.
 *
 * @param comm address of the caller's communicator. The variable *comm must live as long as the shampoo_comm and every
 *     optimizer that uses the shampoo_comm. While one of these optimizers is called, no other thread may use *comm.
 *     After all of them have been destroyed, the caller destroys the communicator, unless *comm is NULL.
 * @param ops receives the same fields as from shampoo_nccl_ops(), and the callback abort.
 * @return ncclSuccess; ncclInvalidArgument if comm, *comm or ops is NULL; or the error of an NCCL call. On failure *ops
 *     is unchanged.
 */
static inline ncclResult_t shampoo_nccl_abortable_ops(ncclComm_t* comm, shampoo_comm_ops* ops) {
  const ncclResult_t result = shampoo_nccl_ops(comm != NULL ? *comm : NULL, ops);
  if (result != ncclSuccess) return result;
  ops->user = comm;
  ops->all_gather = shampoo_nccl_abortable_all_gather;
  ops->async_error = shampoo_nccl_abortable_async_error;
  ops->abort = shampoo_nccl_abort;
  ops->all_to_all = shampoo_nccl_abortable_all_to_all;
  return ncclSuccess;
}

#if NCCL_VERSION_CODE >= 21800
/**
 * Splits a communicator into groups of consecutive ranks. With group_size 8, ranks 0 to 7 are the first group, and
 * ranks 8 to 15 are the second group. If ranks are numbered machine by machine, a group can be the GPUs of one machine.
 * This function needs NCCL 2.18, which introduced ncclCommSplit().
 *
 * If replica_comm has only the ranks of one group, these ranks divide the work among themselves, and every group does
 * the whole work. Groups send less data over slow links than one large communicator, but each rank keeps more state.
 *
 * Collective over comm. Blocks until the other ranks have made the call.
 *
 * @param comm the communicator to split. It is not changed.
 * @param group_size number of ranks in a group, >= 1; the number of ranks of comm must be a multiple of group_size.
 * @param group receives the communicator of this rank's group. Release it with ncclCommDestroy() after the optimizers
 *     that use it have been destroyed.
 * @return ncclSuccess; ncclInvalidArgument if comm or group is NULL, or group_size does not divide the number of ranks;
 *     or the error of an NCCL call.
 */
static inline ncclResult_t shampoo_nccl_split(ncclComm_t comm, int group_size, ncclComm_t* group) {
  ncclResult_t result;
  int rank = 0, world = 0;
  if (comm == NULL || group == NULL) return ncclInvalidArgument;
  result = ncclCommUserRank(comm, &rank);
  if (result == ncclSuccess) result = ncclCommCount(comm, &world);
  if (result != ncclSuccess) return result;
  if (group_size < 1 || world % group_size != 0) return ncclInvalidArgument;
  *group = NULL;
  result = shampoo_nccl_finish(comm, ncclCommSplit(comm, rank / group_size, rank, group, NULL));
  if (result != ncclSuccess || *group == NULL) return result;
  /* If comm is non-blocking, *group is also non-blocking, and may become ready later than comm. */
  return shampoo_nccl_finish(*group, ncclInProgress);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* SHAMPOO_NCCL_H */
