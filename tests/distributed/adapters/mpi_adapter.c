// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The callbacks of shampoo_mpi.h under mpirun, with any number of ranks. Prints "ok" on rank 0.
#ifndef SHAMPOO_MPI_LARGEST_MESSAGE
#define SHAMPOO_MPI_LARGEST_MESSAGE 23
#endif
#include <shampoo/shampoo_mpi.h>
#include <signal.h>
#include <string.h>

static int rank, world;

// Ends the job with the place of the failure: one rank alone would leave the others waiting.
#define REQUIRE(condition)                                                                 \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "rank %d: line %d: %s does not hold\n", rank, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                        \
    }                                                                                      \
  } while (0)

static char sent(int from, int round, size_t i) { return (char)(from * 41 + round * 7 + (int)i); }

// The ranks of the ops are ranks first, first + 1, ... of the world.
static void gather(const shampoo_comm_ops* ops, int first, int round, size_t bytes, int in_place) {
  const size_t all_bytes = (size_t)ops->world * bytes;
  char* own = malloc(bytes);
  char* all = malloc(all_bytes + 1);
  char* send = in_place ? all + (size_t)ops->rank * bytes : own;
  REQUIRE(own != NULL && all != NULL);
  memset(all, 0x55, all_bytes + 1);
  for (size_t i = 0; i < bytes; ++i) send[i] = sent(rank, round, i);
  REQUIRE(ops->all_gather(ops->user, send, all, bytes, NULL) == 0);
  for (int r = 0; r < ops->world; ++r) {
    for (size_t i = 0; i < bytes; ++i) REQUIRE(all[(size_t)r * bytes + i] == sent(first + r, round, i));
  }
  REQUIRE(all[all_bytes] == 0x55);
  free(all);
  free(own);
}

static void gather_often(const shampoo_comm_ops* ops, int first) {
  // Below, at and above the size of a slice, with a rest and without.
  const size_t sizes[] = {1, 2, 5, 7, 11, 23, 24, 46, 64, 1000};
  for (int round = 0; round < (int)(sizeof sizes / sizeof sizes[0]); ++round) {
    gather(ops, first, round, sizes[round], 0);
    gather(ops, first, round, sizes[round], 1);
  }
}

static void check_ops(void) {
  shampoo_comm_ops ops;
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, &ops) == MPI_SUCCESS);
  REQUIRE(ops.struct_size == sizeof ops && ops.device_type == SHAMPOO_CPU);
  REQUIRE(ops.rank == rank && ops.world == world);
  REQUIRE(ops.async_error == NULL && ops.abort != NULL);
  gather_often(&ops, 0);
  ops.release(ops.user);
}

// Messages of the caller on the same communicator are not taken for the adapter's.
static void check_duplicate(void) {
  shampoo_comm_ops ops;
  const int next = (rank + 1) % world, previous = (rank + world - 1) % world;
  int number = rank, received = -1;
  MPI_Request request;
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, &ops) == MPI_SUCCESS);
  MPI_Irecv(&received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
  gather(&ops, 0, 3, 40, 1);
  MPI_Send(&number, 1, MPI_INT, next, 9, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  REQUIRE(received == previous);
  ops.release(ops.user);
}

static void check_refusals(void) {
  shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
  MPI_Comm group = MPI_COMM_NULL;
  ops.rank = 77;
  REQUIRE(shampoo_mpi_ops(MPI_COMM_NULL, &ops) == MPI_ERR_COMM && ops.rank == 77);
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, NULL) == MPI_ERR_ARG);
  REQUIRE(shampoo_mpi_split(MPI_COMM_WORLD, 0, &group) == MPI_ERR_ARG);
  REQUIRE(shampoo_mpi_split(MPI_COMM_WORLD, -2, &group) == MPI_ERR_ARG);
  REQUIRE(shampoo_mpi_split(MPI_COMM_WORLD, world + 1, &group) == MPI_ERR_ARG);
  REQUIRE(shampoo_mpi_split(MPI_COMM_WORLD, 1, NULL) == MPI_ERR_ARG);
  REQUIRE(shampoo_mpi_split(MPI_COMM_NULL, 1, &group) == MPI_ERR_COMM);
  REQUIRE(group == MPI_COMM_NULL);
}

static void check_split(int group_size) {
  shampoo_comm_ops ops;
  MPI_Comm group;
  REQUIRE(shampoo_mpi_split(MPI_COMM_WORLD, group_size, &group) == MPI_SUCCESS);
  REQUIRE(shampoo_mpi_ops(group, &ops) == MPI_SUCCESS);
  MPI_Comm_free(&group);
  REQUIRE(ops.world == group_size && ops.rank == rank % group_size);
  gather_often(&ops, rank - rank % group_size);
  ops.release(ops.user);
}

// A call that MPI refuses without waiting for anybody: results cannot be received "in place".
static int refused_gather(const shampoo_comm_ops* ops) {
  char byte = 0;
  return ops->all_gather(ops->user, &byte, MPI_IN_PLACE, 1, NULL);
}

// The default handler of MPI_COMM_WORLD would end the job here.
static void check_error_returned(void) {
  shampoo_comm_ops ops;
  int class_of_error = MPI_SUCCESS;
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, &ops) == MPI_SUCCESS);
  MPI_Error_class(refused_gather(&ops), &class_of_error);
  REQUIRE(class_of_error == MPI_ERR_ARG || class_of_error == MPI_ERR_BUFFER);
  gather(&ops, 0, 5, 40, 1);
  ops.release(ops.user);
}

// A gather fails on the first rank, which aborts; the others wait for it.
static void abort_job(void) {
  shampoo_comm_ops ops;
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, &ops) == MPI_SUCCESS);
  if (rank == 0 && refused_gather(&ops) != 0) ops.abort(ops.user);
  gather(&ops, 0, 0, 1, 1);
}

// The last rank is killed in the middle of its work; the others wait for it.
static void be_killed(void) {
  shampoo_comm_ops ops;
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, &ops) == MPI_SUCCESS);
  gather(&ops, 0, 0, 1, 1);
  if (rank == world - 1) raise(SIGKILL);
  gather(&ops, 0, 0, 1, 1);
}

int main(int argc, char** argv) {
  shampoo_comm_ops late;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  if (argc > 1 && strcmp(argv[1], "abort") == 0) abort_job();
  if (argc > 1 && strcmp(argv[1], "killed") == 0) be_killed();
  check_ops();
  check_duplicate();
  check_refusals();
  for (int group_size = 1; group_size <= world; ++group_size) {
    if (world % group_size == 0) check_split(group_size);
  }
  check_error_returned();
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, &late) == MPI_SUCCESS);
  MPI_Finalize();
  late.release(late.user);
  if (rank == 0) puts("ok");
  return 0;
}
