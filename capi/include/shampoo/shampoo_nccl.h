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
 * shampoo_nccl.h - ranks of NCCL for libshampoo: fills shampoo_comm_ops from an ncclComm_t.
 *
 * A header alone, in C99 and C++, for NCCL 2.4 and later, of which 2.7 brought what an all-to-all needs. It is compiled
 * by the caller with the caller's own <nccl.h>, and calls the caller's own copy of NCCL: libshampoo neither links nor
 * ships one, so there is never a second copy in the process. Callers that cannot compile C have
 * shampoo_comm_from_nccl() in place of this header.
 *
 * @code{.c}
 * shampoo_comm_ops ops;
 * shampoo_comm* comm;
 * shampoo_optimizer_desc device = SHAMPOO_OPTIMIZER_DESC_INIT;
 *
 * if (shampoo_nccl_ops(nccl_comm, &ops) != ncclSuccess) return 1;
 * if (shampoo_comm_from_ops(&comm, &ops) != SHAMPOO_OK) return 1;
 * device.replica_comm = comm;
 * status = shampoo_optimizer_create(&optimizer, plan, &device);
 * shampoo_comm_destroy(comm);  // the optimizer has its own hold
 * @endcode
 *
 * Memory is that of the GPU of the communicator, and an optimizer on the CPU, the only kind in this version, refuses
 * that. What works today is an NCCL that takes memory of the host, such as the stand-in of the library's own tests: set
 * ops.device_type to SHAMPOO_CPU for it.
 *
 * The communicator is used, not owned: it must live until the shampoo_comm and every optimizer made with it are gone,
 * and is the caller's to destroy. Collectives go into the stream of the step, in the order of the calls. NCCL asks that
 * all ranks give the work of one communicator in one order: where the caller uses it too, on another stream or thread,
 * a communicator of its own for the optimizer (ncclCommSplit() with one color) avoids every question.
 *
 * Threads. NCCL is called on the thread that is inside a call with the optimizer, on no other. No step may be made
 * between ncclGroupStart() and ncclGroupEnd(): its collectives would wait for the end of the group.
 *
 * Functions return ncclSuccess or the error of NCCL, which ncclGetErrorString() puts into words.
 */

#ifdef __cplusplus
extern "C" {
#endif

/** What became of a call: one that a non-blocking communicator (ncclConfig_t.blocking = 0) has left in progress is
 * waited for. */
static inline ncclResult_t shampoo_nccl_finish(ncclComm_t comm, ncclResult_t result) {
  while (result == ncclInProgress) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
    if (asked != ncclSuccess) return asked;
  }
  return result;
}

/** shampoo_comm_ops.all_gather. */
static inline int32_t shampoo_nccl_all_gather(void* user, const void* send, void* recv, size_t bytes_per_rank,
                                              void* stream) {
  const ncclComm_t comm = (ncclComm_t)user;
  if (comm == NULL) return (int32_t)ncclInvalidUsage;
  return (int32_t)shampoo_nccl_finish(comm,
                                      ncclAllGather(send, recv, bytes_per_rank, ncclUint8, comm, (cudaStream_t)stream));
}

#if defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 2700
/** What a non-blocking communicator has left in progress has not failed. */
static inline int shampoo_nccl_failed(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

/** shampoo_comm_ops.all_to_all: a group of ncclSend and ncclRecv, to and from this rank itself, too. Only with NCCL 2.7
 * and later, which brought these two. */
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
  /* After an error, too: the group would stay open for all that this thread does afterwards. */
  ended = ncclGroupEnd();
  return (int32_t)(shampoo_nccl_failed(result) ? result : shampoo_nccl_finish(comm, ended));
}
#endif

/** shampoo_comm_ops.async_error. What is in progress is no error. */
static inline int32_t shampoo_nccl_async_error(void* user) {
  const ncclComm_t comm = (ncclComm_t)user;
  ncclResult_t error = ncclSuccess, asked;
  if (comm == NULL) return (int32_t)ncclInvalidUsage;
  asked = ncclCommGetAsyncError(comm, &error);
  if (asked != ncclSuccess) return (int32_t)asked;
  return error == ncclInProgress ? 0 : (int32_t)error;
}

/**
 * Fills ops for shampoo_comm_from_ops() from a communicator of NCCL.
 *
 * It has no abort: ncclCommAbort() frees the communicator, and that stays the caller's to do. When a collective of the
 * optimizer fails on a rank, the call with the optimizer returns SHAMPOO_E_COMM at once; it is then the caller who
 * calls ncclCommAbort(), on every rank, as after any other failed collective. shampoo_nccl_abortable_ops() leaves it to
 * the library.
 *
 * Blocks: no. Threads: see the head of this file.
 *
 * @param comm ranks that hold the same parameters, or the shards of one copy. It stays the caller's.
 * @param ops filled, struct_size included: rank, world, device_type SHAMPOO_CUDA, all_gather, async_error and, where
 *     <nccl.h> is of NCCL 2.7 or later, all_to_all. Must not be NULL.
 * @return ncclSuccess; ncclInvalidArgument: comm or ops is NULL; or what NCCL returned for comm. *ops is as before on
 *     failure.
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
#if defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 2700
  filled.all_to_all = shampoo_nccl_all_to_all;
#endif
  *ops = filled;
  return ncclSuccess;
}

/** The callbacks of shampoo_nccl_abortable_ops(): user is the place where the caller keeps the communicator. */
static inline int32_t shampoo_nccl_abortable_all_gather(void* user, const void* send, void* recv, size_t bytes_per_rank,
                                                        void* stream) {
  return shampoo_nccl_all_gather(*(ncclComm_t*)user, send, recv, bytes_per_rank, stream);
}

#if defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 2700
static inline int32_t shampoo_nccl_abortable_all_to_all(void* user, const void* send, const size_t* send_bytes,
                                                        void* recv, const size_t* recv_bytes, void* stream) {
  return shampoo_nccl_all_to_all(*(ncclComm_t*)user, send, send_bytes, recv, recv_bytes, stream);
}
#endif

static inline int32_t shampoo_nccl_abortable_async_error(void* user) {
  return shampoo_nccl_async_error(*(ncclComm_t*)user);
}

static inline void shampoo_nccl_abort(void* user) {
  ncclComm_t* const comm = (ncclComm_t*)user;
  if (*comm != NULL) ncclCommAbort(*comm);
  *comm = NULL;
}

/**
 * The same, and the library may end the communicator: when a collective of the optimizer fails on a rank, abort calls
 * ncclCommAbort() and sets *comm to NULL, so that the caller sees that it is gone. Peers learn of it as NCCL lets them:
 * by ncclRemoteError where they are connected over a network; within a machine they may have to be watched by the
 * clock.
 *
 * Blocks: no. Threads: see the head of this file; the caller must not use *comm at the same time.
 *
 * @param comm where the caller keeps the communicator: this variable must live as long as the shampoo_comm and every
 *     optimizer made with it. What it holds in the end, if not NULL, is the caller's to destroy.
 * @param ops filled as by shampoo_nccl_ops(), and abort. Must not be NULL.
 * @return as shampoo_nccl_ops(); ncclInvalidArgument, too, where comm is NULL.
 */
static inline ncclResult_t shampoo_nccl_abortable_ops(ncclComm_t* comm, shampoo_comm_ops* ops) {
  const ncclResult_t result = shampoo_nccl_ops(comm != NULL ? *comm : NULL, ops);
  if (result != ncclSuccess) return result;
  ops->user = comm;
  ops->all_gather = shampoo_nccl_abortable_all_gather;
  ops->async_error = shampoo_nccl_abortable_async_error;
  ops->abort = shampoo_nccl_abort;
#if defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 2700
  ops->all_to_all = shampoo_nccl_abortable_all_to_all;
#endif
  return ncclSuccess;
}

#if defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 21800
/**
 * Splits a communicator into groups of consecutive ranks: with a group_size of 8, ranks 0 to 7, ranks 8 to 15, and so
 * on: the GPUs of one machine, where ranks are numbered so. Given to shampoo_nccl_ops(), each group divides the work
 * among its ranks, and the groups repeat it: less is sent over slow links, and more state is kept. Only with NCCL 2.18
 * and later, which brought ncclCommSplit().
 *
 * Collective over comm. Blocks: until the other ranks have come here. Threads: see the head of this file.
 *
 * @param comm to be split. It stays as it is.
 * @param group_size ranks in a group, >= 1; the number of ranks of comm must be a multiple of it.
 * @param group receives the communicator of this rank's group, which the caller ends with ncclCommDestroy(), after the
 *     optimizers that use it. Must not be NULL.
 * @return ncclSuccess; ncclInvalidArgument: comm or group is NULL, or group_size does not divide the number of ranks;
 *     or what NCCL returned.
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
  /* A non-blocking one inherits that, and may still be on its way when its parent is ready. */
  return shampoo_nccl_finish(*group, ncclInProgress);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* SHAMPOO_NCCL_H */
