/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SHAMPOO_MPI_H
#define SHAMPOO_MPI_H

#include <limits.h>
#include <mpi.h>
#include <shampoo/shampoo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/**
 * @file
 * shampoo_mpi.h - communicators of libshampoo over MPI: fills shampoo_comm_ops from an MPI_Comm.
 *
 * This header is an adapter in C99 and C++ for MPI 3 and later. The caller compiles the header with the <mpi.h> of any
 * MPI implementation. libshampoo itself is not linked with MPI.
 *
 * @code{.c}
 * shampoo_comm_ops ops;
 * shampoo_comm* comm;
 * shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
 *
 * if (shampoo_mpi_ops(MPI_COMM_WORLD, &ops) != MPI_SUCCESS) return 1;
 * if (shampoo_comm_from_ops(&comm, &ops) != SHAMPOO_OK) {
 *   ops.release(ops.user);
 *   return 1;
 * }
 * desc.replica_comm = comm;
 * status = shampoo_optimizer_create(&optimizer, plan, &desc);
 * shampoo_comm_destroy(comm);  // the optimizer keeps its own reference
 * @endcode
 *
 * The conventions of shampoo.h hold here too, with these differences and additions:
 *
 * Errors. Functions return MPI_SUCCESS or an MPI error code, which MPI_Error_string() describes. They do not change the
 * message of shampoo_last_error().
 *
 * Threads. MPI is called only on the thread that calls the optimizer. MPI_THREAD_FUNNELED is enough if this thread also
 * initialized MPI; otherwise MPI_THREAD_SERIALIZED is needed. If a rank steps two optimizers on two threads at the same
 * time, that rank needs MPI_THREAD_MULTIPLE, and each optimizer needs a separate communicator.
 */

#ifndef SHAMPOO_MPI_LARGEST_MESSAGE
/** Largest number of bytes that a rank receives in one MPI_Allgather (the segments of all ranks together) or in one
 * message of an all-to-all. Larger transfers are divided into slices. The limit exists because MPI counts are int,
 * and some implementations also compute the sum of all counts as an int. To change the limit, define this macro before
 * including the header, with the same value on every rank. */
#define SHAMPOO_MPI_LARGEST_MESSAGE INT_MAX
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** State of the callbacks (shampoo_comm_ops.user). shampoo_mpi_ops() allocates it; the callback release frees it. */
typedef struct shampoo_mpi_state {
  /** Duplicate of the caller's communicator, so that messages of the optimizer and of the caller stay separate. */
  MPI_Comm comm;
  /** This process's rank in comm. */
  int rank;
  /** Number of ranks in comm. */
  int world;
  /** Error code of the last MPI call that failed. MPI_SUCCESS if none has failed. */
  int error;
  /** Name of the collective whose failure set `error`. NULL if none has failed. */
  const char* failed;
  /** Requests of an all-to-all: `world` requests of receives, then `world` requests of sends. A request that is not in
   * progress is MPI_REQUEST_NULL. The array is allocated once, because steps must not allocate memory. */
  MPI_Request* requests;
} shampoo_mpi_state;

/** If error is not MPI_SUCCESS, records that the collective failed, so that shampoo_mpi_abort() can report it. */
static inline void shampoo_mpi_note(shampoo_mpi_state* state, const char* collective, int error) {
  if (error == MPI_SUCCESS) return;
  state->error = error;
  state->failed = collective;
}

/** Gathers the bytes [first, first + count) of every rank's segment. Each segment has bytes_per_rank bytes. */
static inline int shampoo_mpi_gather_slice(const shampoo_mpi_state* state, const char* send, char* recv,
                                           size_t bytes_per_rank, size_t first, int count) {
  const int in_place = send == recv + (size_t)state->rank * bytes_per_rank;
  const void* const source = in_place ? MPI_IN_PLACE : (const void*)(send + first);
  MPI_Datatype bytes, slice;
  int error;
  if ((size_t)count == bytes_per_rank) {
    return MPI_Allgather(source, count, MPI_BYTE, recv, count, MPI_BYTE, state->comm);
  }
  error = MPI_Type_contiguous(count, MPI_BYTE, &bytes);
  if (error != MPI_SUCCESS) return error;
  /* The slices of consecutive ranks are bytes_per_rank apart in recv. */
  error = MPI_Type_create_resized(bytes, 0, (MPI_Aint)bytes_per_rank, &slice);
  MPI_Type_free(&bytes);
  if (error != MPI_SUCCESS) return error;
  error = MPI_Type_commit(&slice);
  if (error == MPI_SUCCESS) error = MPI_Allgather(source, count, MPI_BYTE, recv + first, 1, slice, state->comm);
  MPI_Type_free(&slice);
  return error;
}

/** Implements shampoo_comm_ops.all_gather. stream is unused because the memory is host memory. */
static inline int32_t shampoo_mpi_all_gather(void* user, const void* send, void* recv, size_t bytes_per_rank,
                                             void* stream) {
  shampoo_mpi_state* const state = (shampoo_mpi_state*)user;
  const size_t share = (size_t)(SHAMPOO_MPI_LARGEST_MESSAGE) / (size_t)state->world;
  const size_t largest = share > 0 ? share : 1;
  size_t first;
  int error = MPI_SUCCESS;
  (void)stream;
  for (first = 0; first < bytes_per_rank && error == MPI_SUCCESS; first += largest) {
    const size_t rest = bytes_per_rank - first;
    error = shampoo_mpi_gather_slice(state, (const char*)send, (char*)recv, bytes_per_rank, first,
                                     (int)(rest < largest ? rest : largest));
  }
  shampoo_mpi_note(state, "all-gather", error);
  return error;
}

/** Returns the offset of a rank's segment. Segments are in the order of the ranks, without gaps; segment r has bytes[r]
 * bytes. */
static inline size_t shampoo_mpi_offset(const size_t* bytes, int rank) {
  size_t offset = 0;
  int r;
  for (r = 0; r < rank; ++r) offset += bytes[r];
  return offset;
}

/** For each other rank whose segment has more than `first` bytes, starts the transfer of one slice of the segment. The
 * slice begins at byte `first` and has at most SHAMPOO_MPI_LARGEST_MESSAGE bytes. If recv is NULL, this rank sends the
 * slices. If send is NULL, this rank receives the slices. bytes[r] is the size of the segment for or from rank r. */
static inline int shampoo_mpi_begin_slices(shampoo_mpi_state* state, const char* send, char* recv, const size_t* bytes,
                                           size_t first) {
  const size_t largest = (size_t)(SHAMPOO_MPI_LARGEST_MESSAGE);
  const int tag = 23; /* arbitrary, because state->comm has no other point-to-point messages */
  size_t offset = shampoo_mpi_offset(bytes, state->rank + 1);
  int step, error = MPI_SUCCESS;
  /* Each rank begins with its successor, so that the ranks do not all send to rank 0 first. */
  for (step = 1; step < state->world && error == MPI_SUCCESS; ++step) {
    const int peer = (state->rank + step) % state->world;
    if (peer == 0) offset = 0;
    if (bytes[peer] > first) {
      const size_t rest = bytes[peer] - first;
      const int count = (int)(rest < largest ? rest : largest);
      error = recv != NULL
                  ? MPI_Irecv(recv + offset + first, count, MPI_BYTE, peer, tag, state->comm, &state->requests[peer])
                  : MPI_Isend(send + offset + first, count, MPI_BYTE, peer, tag, state->comm,
                              &state->requests[state->world + peer]);
    }
    offset += bytes[peer];
  }
  return error;
}

/** Waits until all requests are complete or one of them fails. */
static inline int shampoo_mpi_wait(shampoo_mpi_state* state) {
  int i, error = MPI_SUCCESS;
  /* MPI_Waitall is not used, because it reports the error of a request only through an array of statuses. */
  for (i = 0; i < 2 * state->world && error == MPI_SUCCESS; ++i) {
    error = MPI_Wait(&state->requests[i], MPI_STATUS_IGNORE);
  }
  return error;
}

/** After a failure, cancels the receives that are still in progress, and frees all requests, without waiting. MPI then
 * writes nothing more to the receive buffer, except messages that are already arriving. */
static inline void shampoo_mpi_give_up(shampoo_mpi_state* state) {
  int i;
  for (i = 0; i < 2 * state->world; ++i) {
    if (state->requests[i] == MPI_REQUEST_NULL) continue;
    if (i < state->world) MPI_Cancel(&state->requests[i]);
    MPI_Request_free(&state->requests[i]);
    state->requests[i] = MPI_REQUEST_NULL;
  }
}

/** Implements shampoo_comm_ops.all_to_all: each rank sends one message to every other rank. A message that is larger
 * than SHAMPOO_MPI_LARGEST_MESSAGE is divided. The sender and the receiver both know the size of a message, so sizes
 * are not sent. stream is unused. */
static inline int32_t shampoo_mpi_all_to_all(void* user, const void* send, const size_t* send_bytes, void* recv,
                                             const size_t* recv_bytes, void* stream) {
  shampoo_mpi_state* const state = (shampoo_mpi_state*)user;
  const size_t own_bytes = recv_bytes[state->rank];
  size_t longest = 0, first;
  int r, error = MPI_SUCCESS;
  (void)stream;
  for (r = 0; r < state->world; ++r) {
    if (r == state->rank) continue;
    if (longest < send_bytes[r]) longest = send_bytes[r];
    if (longest < recv_bytes[r]) longest = recv_bytes[r];
  }
  if (own_bytes > 0) {
    memcpy((char*)recv + shampoo_mpi_offset(recv_bytes, state->rank),
           (const char*)send + shampoo_mpi_offset(send_bytes, state->rank), own_bytes);
  }
  for (first = 0; first < longest && error == MPI_SUCCESS; first += (size_t)(SHAMPOO_MPI_LARGEST_MESSAGE)) {
    /* Start all receives before the sends, so that MPI need not store arriving messages in other buffers. */
    error = shampoo_mpi_begin_slices(state, NULL, (char*)recv, recv_bytes, first);
    if (error == MPI_SUCCESS) error = shampoo_mpi_begin_slices(state, (const char*)send, NULL, send_bytes, first);
    if (error == MPI_SUCCESS) error = shampoo_mpi_wait(state);
  }
  if (error != MPI_SUCCESS) shampoo_mpi_give_up(state);
  shampoo_mpi_note(state, "all-to-all", error);
  return error;
}

/** Implements shampoo_comm_ops.abort: ends the whole job with an error. */
static inline void shampoo_mpi_abort(void* user) {
  shampoo_mpi_state* const state = (shampoo_mpi_state*)user;
  /* Print the reason now, because the job may end before the caller can print the optimizer's error. */
  fprintf(stderr, "shampoo_mpi: rank %d of %d: ", state->rank, state->world);
  if (state->error != MPI_SUCCESS) {
    char reason[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (MPI_Error_string(state->error, reason, &length) != MPI_SUCCESS) reason[0] = '\0';
    fprintf(stderr, "an %s failed (%s); the job is aborted\n", state->failed, reason);
  } else {
    fprintf(stderr,
            "the optimizer failed (to receive the reason, set a log callback with shampoo_set_log()); the job is "
            "aborted\n");
  }
  fflush(stderr);
  MPI_Abort(state->comm, state->error != MPI_SUCCESS ? state->error : 1);
}

/** Implements shampoo_comm_ops.release: frees the state. Frees its communicator, too, unless MPI has been finalized. */
static inline void shampoo_mpi_release(void* user) {
  shampoo_mpi_state* const state = (shampoo_mpi_state*)user;
  int finalized = 0;
  if (MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized) MPI_Comm_free(&state->comm);
  free(state->requests);
  free(state);
}

/**
 * Fills ops for shampoo_comm_from_ops() from an MPI communicator.
 *
 * The communicator is duplicated. The duplicate returns errors (MPI_ERRORS_RETURN) instead of ending the job.
 *
 * The callback abort writes a line with the reason to stderr and calls MPI_Abort(), because other ranks would otherwise
 * wait for this rank forever. The library calls abort if a collective of the optimizer fails on this rank, if this rank
 * receives invalid data, or if this rank fails at a point where other ranks would wait for it. A caller that wants to
 * end the job itself sets ops->abort to NULL before calling shampoo_comm_from_ops(). If a collective then fails on this
 * rank, the function of the library returns SHAMPOO_E_COMM on this rank, and the other ranks may wait forever.
 *
 * The callback release frees the duplicate when the shampoo_comm and every optimizer that uses the shampoo_comm have
 * been destroyed. MPI frees a communicator collectively: destroy these objects on all ranks, in the same order relative
 * to other collective calls, and before MPI_Finalize(). These objects may also be destroyed after MPI_Finalize(), but
 * the duplicate is then not freed.
 *
 * Collective over comm. Blocks until the other ranks have made the call.
 *
 * @param comm an intracommunicator of the ranks that hold the same parameters, or of the ranks that hold the shards of
 *     one copy of the parameters. It remains owned by the caller.
 * @param ops receives struct_size, user, rank, world, device_type (SHAMPOO_CPU), and all callbacks except async_error.
 *     If no shampoo_comm is created from *ops, call ops->release(ops->user).
 * @return MPI_SUCCESS; MPI_ERR_ARG if ops is NULL; MPI_ERR_COMM if comm is MPI_COMM_NULL or an intercommunicator;
 *     MPI_ERR_NO_MEM; or the error of an MPI call, if the error handler of comm lets that call return. On failure *ops
 *     is unchanged.
 */
static inline int shampoo_mpi_ops(MPI_Comm comm, shampoo_comm_ops* ops) {
  shampoo_comm_ops filled = SHAMPOO_COMM_OPS_INIT;
  shampoo_mpi_state* state;
  MPI_Request* requests;
  int between_groups = 0, rank = 0, world = 0, i, error;
  if (ops == NULL) return MPI_ERR_ARG;
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  error = MPI_Comm_test_inter(comm, &between_groups);
  if (error != MPI_SUCCESS) return error;
  if (between_groups) return MPI_ERR_COMM;

  error = MPI_Comm_rank(comm, &rank);
  if (error == MPI_SUCCESS) error = MPI_Comm_size(comm, &world);
  if (error != MPI_SUCCESS) return error;

  state = (shampoo_mpi_state*)malloc(sizeof *state);
  requests = (MPI_Request*)malloc(2 * (size_t)world * sizeof *requests);
  error = state != NULL && requests != NULL ? MPI_Comm_dup(comm, &state->comm) : MPI_ERR_NO_MEM;
  if (error != MPI_SUCCESS) {
    free(requests);
    free(state);
    return error;
  }
  state->rank = rank;
  state->world = world;
  state->error = MPI_SUCCESS;
  state->failed = NULL;
  state->requests = requests;
  for (i = 0; i < 2 * world; ++i) requests[i] = MPI_REQUEST_NULL;
  error = MPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN);
  if (error != MPI_SUCCESS) {
    shampoo_mpi_release(state);
    return error;
  }
  filled.user = state;
  filled.rank = state->rank;
  filled.world = state->world;
  filled.device_type = SHAMPOO_CPU;
  filled.all_gather = shampoo_mpi_all_gather;
  filled.abort = shampoo_mpi_abort;
  filled.release = shampoo_mpi_release;
  filled.all_to_all = shampoo_mpi_all_to_all;
  *ops = filled;
  return MPI_SUCCESS;
}

/**
 * Splits a communicator into groups of consecutive ranks. With group_size 4, ranks 0 to 3 are the first group, and
 * ranks 4 to 7 are the second group.
 *
 * Groups have two uses:
 * - If replica_comm has only the ranks of one group, these ranks divide the work among themselves, and every group does
 *   the whole work. Groups send less data over slow links than one large communicator, but each rank keeps more state.
 * - In hybrid sharding (HSDP), each group holds the shards of one copy of the parameters. To create the communicator of
 *   the ranks that hold the same shard, call MPI_Comm_split(comm, rank % group_size, rank, &replicas).
 *
 * Collective over comm. Blocks until the other ranks have made the call.
 *
 * @param comm the communicator to split. It is not changed.
 * @param group_size number of ranks in a group, >= 1; the number of ranks of comm must be a multiple of group_size.
 * @param group receives the communicator of this rank's group. Free it with MPI_Comm_free(). It is no longer needed
 *     after shampoo_mpi_ops(), because shampoo_mpi_ops() duplicates the communicator.
 * @return MPI_SUCCESS; MPI_ERR_ARG if group is NULL or group_size does not divide the number of ranks; MPI_ERR_COMM if
 *     comm is MPI_COMM_NULL; or the error of an MPI call.
 */
static inline int shampoo_mpi_split(MPI_Comm comm, int group_size, MPI_Comm* group) {
  int rank, world, error;
  if (group == NULL) return MPI_ERR_ARG;
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  error = MPI_Comm_rank(comm, &rank);
  if (error == MPI_SUCCESS) error = MPI_Comm_size(comm, &world);
  if (error != MPI_SUCCESS) return error;
  if (group_size < 1 || world % group_size != 0) return MPI_ERR_ARG;
  return MPI_Comm_split(comm, rank / group_size, rank, group);
}

#ifdef __cplusplus
}
#endif

#endif /* SHAMPOO_MPI_H */
