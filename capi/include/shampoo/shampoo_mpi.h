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
 * shampoo_mpi.h - ranks of MPI for libshampoo: fills shampoo_comm_ops from an MPI_Comm.
 *
 * A header alone, in C99 and C++, for MPI 3 and later. It is compiled by the caller with the caller's own <mpi.h>, so
 * libshampoo links no MPI and works with every one. Nothing in here is exported by the library.
 *
 * @code{.c}
 * shampoo_comm_ops ops;
 * shampoo_comm* comm;
 * shampoo_optimizer_desc device = SHAMPOO_OPTIMIZER_DESC_INIT;
 *
 * if (shampoo_mpi_ops(MPI_COMM_WORLD, &ops) != MPI_SUCCESS) return 1;
 * if (shampoo_comm_from_ops(&comm, &ops) != SHAMPOO_OK) {
 *   ops.release(ops.user);
 *   return 1;
 * }
 * device.replica_comm = comm;
 * status = shampoo_optimizer_create(&optimizer, plan, &device);
 * shampoo_comm_destroy(comm);  // the optimizer has its own hold
 * @endcode
 *
 * Threads. MPI is called on the thread that is inside a call with the optimizer, on no other: MPI_THREAD_FUNNELED is
 * enough where that is the thread that initialised MPI, MPI_THREAD_SERIALIZED where it is not. Ranks that step two
 * optimizers at once from two threads need MPI_THREAD_MULTIPLE, and a communicator for each.
 *
 * Functions return MPI_SUCCESS or the error of MPI, which MPI_Error_string() puts into words.
 */

#ifndef SHAMPOO_MPI_LARGEST_MESSAGE
/** The most bytes that one MPI_Allgather brings to a rank, the segments of all ranks together, and the most that one
 * message of an all-to-all has; what is larger is cut into slices. Counts of MPI are int, and some implementations
 * compute the sum of all counts as one. To be defined before the header is included, if at all, and the same on every
 * rank. */
#define SHAMPOO_MPI_LARGEST_MESSAGE INT_MAX
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What the callbacks need. It belongs to the ops that shampoo_mpi_ops() filled, and ends with their release. */
typedef struct shampoo_mpi_state {
  /** The duplicate: messages of the optimizer never meet those of the caller. */
  MPI_Comm comm;
  /** This rank in it. */
  int rank;
  /** Number of its ranks. */
  int world;
  /** What the last failed call returned, for abort. */
  int error;
  /** Which collective that was. */
  const char* failed;
  /** Of an all-to-all: world receives, then world sends; MPI_REQUEST_NULL where nothing is under way. Made once, so
   * that a step allocates nothing here. */
  MPI_Request* requests;
} shampoo_mpi_state;

/** Keeps what failed for abort. */
static inline void shampoo_mpi_note(shampoo_mpi_state* state, const char* collective, int error) {
  if (error == MPI_SUCCESS) return;
  state->error = error;
  state->failed = collective;
}

/** A slice of the gather: bytes [first, first + count) of every segment. */
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
  /* The next rank's slice lies a whole segment further on. */
  error = MPI_Type_create_resized(bytes, 0, (MPI_Aint)bytes_per_rank, &slice);
  MPI_Type_free(&bytes);
  if (error != MPI_SUCCESS) return error;
  error = MPI_Type_commit(&slice);
  if (error == MPI_SUCCESS) error = MPI_Allgather(source, count, MPI_BYTE, recv + first, 1, slice, state->comm);
  MPI_Type_free(&slice);
  return error;
}

/** shampoo_comm_ops.all_gather. stream is not used: memory is that of the host. */
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

/** First byte of a rank's segment, where segments of so many bytes lie in the order of the ranks, without gaps. */
static inline size_t shampoo_mpi_offset(const size_t* bytes, int rank) {
  size_t offset = 0;
  int r;
  for (r = 0; r < rank; ++r) offset += bytes[r];
  return offset;
}

/** Begins a slice of the all-to-all with each other rank whose segment reaches so far: bytes [first, first + largest
 * message) of it. One of send and recv is NULL, and bytes are those of the other. */
static inline int shampoo_mpi_begin_slices(shampoo_mpi_state* state, const char* send, char* recv, const size_t* bytes,
                                           size_t first) {
  const size_t largest = (size_t)(SHAMPOO_MPI_LARGEST_MESSAGE);
  const int tag = 23; /* any: the duplicate carries no other messages from rank to rank */
  size_t offset = shampoo_mpi_offset(bytes, state->rank + 1);
  int step, error = MPI_SUCCESS;
  /* From the next rank on, so that not all of them send to rank 0 first. */
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

/** Waits for all requests, or until one of them fails. */
static inline int shampoo_mpi_wait(shampoo_mpi_state* state) {
  int i, error = MPI_SUCCESS;
  /* One by one: MPI_Waitall tells the error itself only in an array of statuses. */
  for (i = 0; i < 2 * state->world && error == MPI_SUCCESS; ++i) {
    error = MPI_Wait(&state->requests[i], MPI_STATUS_IGNORE);
  }
  return error;
}

/** After a failure: lets go of what is still under way and waits for nobody. Nothing is written to the memory of the
 * call any more, unless it is arriving already. */
static inline void shampoo_mpi_give_up(shampoo_mpi_state* state) {
  int i;
  for (i = 0; i < 2 * state->world; ++i) {
    if (state->requests[i] == MPI_REQUEST_NULL) continue;
    if (i < state->world) MPI_Cancel(&state->requests[i]);
    MPI_Request_free(&state->requests[i]);
    state->requests[i] = MPI_REQUEST_NULL;
  }
}

/** shampoo_comm_ops.all_to_all: a message from each rank to each other, or several where one would be too large. Both
 * ranks of a pair know how many bytes there are, so that nothing has to be agreed on. stream is not used. */
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
    /* Receives before sends: what finds its receive is not copied twice. */
    error = shampoo_mpi_begin_slices(state, NULL, (char*)recv, recv_bytes, first);
    if (error == MPI_SUCCESS) error = shampoo_mpi_begin_slices(state, (const char*)send, NULL, send_bytes, first);
    if (error == MPI_SUCCESS) error = shampoo_mpi_wait(state);
  }
  if (error != MPI_SUCCESS) shampoo_mpi_give_up(state);
  shampoo_mpi_note(state, "all-to-all", error);
  return error;
}

/** shampoo_comm_ops.abort: ends the whole job with an error. */
static inline void shampoo_mpi_abort(void* user) {
  shampoo_mpi_state* const state = (shampoo_mpi_state*)user;
  char reason[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  if (MPI_Error_string(state->error, reason, &length) != MPI_SUCCESS) reason[0] = '\0';
  /* The job may not live to see the error of the optimizer, and MPI does not say why it is ended. */
  fprintf(stderr, "shampoo_mpi: rank %d of %d: an %s failed (%s), the job is aborted\n", state->rank, state->world,
          state->failed, reason);
  fflush(stderr);
  MPI_Abort(state->comm, state->error != MPI_SUCCESS ? state->error : 1);
}

/** shampoo_comm_ops.release: frees the duplicate, unless MPI has ended before and has taken it along. */
static inline void shampoo_mpi_release(void* user) {
  shampoo_mpi_state* const state = (shampoo_mpi_state*)user;
  int finalized = 0;
  if (MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized) MPI_Comm_free(&state->comm);
  free(state->requests);
  free(state);
}

/**
 * Fills ops for shampoo_comm_from_ops() from a communicator of MPI.
 *
 * The communicator is duplicated, so that it stays the caller's in every respect; the duplicate reports errors
 * (MPI_ERRORS_RETURN) in place of ending the job. When a collective of the optimizer fails on a rank, abort writes a
 * line to stderr that says which and why, and calls MPI_Abort: peers that wait for this rank could be reached in no
 * other way, and a job that ends with an error is better than one that waits for ever. A caller that wants to end it by
 * itself sets ops->abort to NULL before shampoo_comm_from_ops(): the call with the optimizer then returns
 * SHAMPOO_E_COMM on this rank alone.
 *
 * The duplicate is freed by release, when the shampoo_comm and every optimizer made with it are gone. MPI calls that
 * collective: destroy them on all ranks, in the same order as other collective calls, and before MPI_Finalize(). After
 * MPI_Finalize() nothing is freed, which is allowed.
 *
 * Collective over comm. Blocks: until the other ranks have come here. Threads: see the head of this file.
 *
 * @param comm ranks that hold the same parameters, or the shards of one copy. An intracommunicator, which stays
 *     the caller's.
 * @param ops filled, struct_size included: rank, world, device_type SHAMPOO_CPU and all callbacks but async_error. The
 *     caller calls ops->release(ops->user) only where ops never become a shampoo_comm. Must not be NULL.
 * @return MPI_SUCCESS; MPI_ERR_ARG: ops is NULL; MPI_ERR_COMM: comm is MPI_COMM_NULL or an intercommunicator;
 *     MPI_ERR_NO_MEM; or what MPI_Comm_dup() returned, where the error handler of comm lets it return. *ops is as
 *     before on failure.
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
  state->failed = "exchange";
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
 * Splits a communicator into groups of consecutive ranks: with a group_size of 4, ranks 0 to 3, ranks 4 to 7, and so
 * on. Given to shampoo_mpi_ops(), each group divides the work among its ranks, and the groups repeat it: less is sent
 * over slow links, and more state is kept. In hybrid sharding the groups hold the shards of one copy; the ranks at the
 * same place of each group, which hold the same shard, come from MPI_Comm_split(comm, rank % group_size, rank,
 * &replicas).
 *
 * Collective over comm. Blocks: until the other ranks have come here. Threads: see the head of this file.
 *
 * @param comm to be split. It stays as it is.
 * @param group_size ranks in a group, >= 1; the number of ranks of comm must be a multiple of it.
 * @param group receives the communicator of this rank's group, which the caller ends with MPI_Comm_free(); ops that
 *     were filled from it have a duplicate and do not need it. Must not be NULL.
 * @return MPI_SUCCESS; MPI_ERR_ARG: group is NULL, or group_size does not divide the number of ranks; MPI_ERR_COMM:
 *     comm is MPI_COMM_NULL; or what MPI_Comm_split() returned.
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
