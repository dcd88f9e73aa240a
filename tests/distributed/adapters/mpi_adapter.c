// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the callbacks of shampoo_mpi.h under mpirun with 1 to 4 ranks. Prints "ok" on rank 0. Unless the build
// defines another limit, a message has at most 23 bytes, so that the adapter divides even small transfers.
#ifndef SHAMPOO_MPI_LARGEST_MESSAGE
#define SHAMPOO_MPI_LARGEST_MESSAGE 23
#endif
#include <shampoo/shampoo_mpi.h>
#include <signal.h>
#include <string.h>

static int rank, world;

// If the condition is false, prints it and ends the job. If only this rank ended, the other ranks would wait forever.
#define REQUIRE(condition)                                                                 \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "rank %d: line %d: %s does not hold\n", rank, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                        \
    }                                                                                      \
  } while (0)

static int refuse_sends;

// Replaces the function of MPI. Checks the size of each message, and fails if refuse_sends is set.
int MPI_Isend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
  REQUIRE(count > 0 && count <= SHAMPOO_MPI_LARGEST_MESSAGE);
  if (refuse_sends) return MPI_ERR_OTHER;
  return PMPI_Isend(buf, count, datatype, dest, tag, comm, request);
}

// Returns byte i of the data that rank `from` sends in the collective with the number `round`. In an all-to-all, the
// data also depend on the receiver: exchange() passes sender + 5 * receiver as `from`.
static char sent(int from, int round, size_t i) { return (char)(from * 41 + round * 7 + (int)i); }

// Makes an all-gather and checks the received bytes. Rank r of `ops` is rank first + r of MPI_COMM_WORLD.
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
  // One MPI_Allgather transfers at most 23 / world bytes of each rank: 23, 11, 7 or 5. The sizes are below, at and
  // above these limits. Some sizes are multiples of a limit.
  const size_t sizes[] = {1, 2, 5, 7, 11, 23, 24, 46, 64, 1000};
  for (int round = 0; round < (int)(sizeof sizes / sizeof sizes[0]); ++round) {
    gather(ops, first, round, sizes[round], 0);
    gather(ops, first, round, sizes[round], 1);
  }
}

// Returns the number of bytes that one rank sends to another: 0, or a number below, at or above the limit of a message.
static size_t bytes_between(int from, int to, int round) {
  const int number = from * 5 + to * 3 + round;
  return number % 4 == 0 ? 0 : number % 4 == 1 ? (size_t)(number % 3) * 23 : (size_t)(number * 37 % 91);
}

static void exchange(const shampoo_comm_ops* ops, int first, int round) {
  size_t* send_bytes = calloc((size_t)ops->world, sizeof *send_bytes);
  size_t* recv_bytes = calloc((size_t)ops->world, sizeof *recv_bytes);
  size_t all_sent = 0, all_received = 0;
  char *send, *recv, *next;
  REQUIRE(send_bytes != NULL && recv_bytes != NULL);
  for (int r = 0; r < ops->world; ++r) {
    all_sent += send_bytes[r] = bytes_between(rank, first + r, round);
    all_received += recv_bytes[r] = bytes_between(first + r, rank, round);
  }
  next = send = malloc(all_sent + 1);
  recv = malloc(all_received + 1);
  REQUIRE(send != NULL && recv != NULL);
  memset(recv, 0x55, all_received + 1);
  for (int r = 0; r < ops->world; ++r) {
    for (size_t i = 0; i < send_bytes[r]; ++i) *next++ = sent(rank + 5 * r, round, i);
  }
  REQUIRE(ops->all_to_all(ops->user, send, send_bytes, recv, recv_bytes, NULL) == 0);
  next = recv;
  for (int r = 0; r < ops->world; ++r) {
    for (size_t i = 0; i < recv_bytes[r]; ++i) REQUIRE(*next++ == sent(first + r + 5 * ops->rank, round, i));
  }
  REQUIRE(*next == 0x55);
  free(recv);
  free(send);
  free(recv_bytes);
  free(send_bytes);
}

// Makes 50 all-to-alls. Only the all-gather after every seventh all-to-all synchronizes the ranks, so consecutive
// all-to-alls may overlap.
static void exchange_often(const shampoo_comm_ops* ops, int first) {
  for (int round = 0; round < 50; ++round) {
    exchange(ops, first, round);
    if (round % 7 == 0) gather(ops, first, round, 30, 1);
  }
}

static void check_ops(void) {
  shampoo_comm_ops ops;
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, &ops) == MPI_SUCCESS);
  REQUIRE(ops.struct_size == sizeof ops && ops.device_type == SHAMPOO_CPU);
  REQUIRE(ops.rank == rank && ops.world == world);
  REQUIRE(ops.async_error == NULL && ops.abort != NULL);
  gather_often(&ops, 0);
  exchange_often(&ops, 0);
  ops.release(ops.user);
}

// Checks that messages of the caller on the same communicator are not confused with messages of the adapter.
static void check_duplicate(void) {
  shampoo_comm_ops ops;
  const int next = (rank + 1) % world, previous = (rank + world - 1) % world;
  int number = rank, received = -1;
  MPI_Request request;
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, &ops) == MPI_SUCCESS);
  MPI_Irecv(&received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
  gather(&ops, 0, 3, 40, 1);
  exchange(&ops, 0, 3);
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
  exchange_often(&ops, rank - rank % group_size);
  ops.release(ops.user);
}

// Makes an all-gather that MPI rejects without waiting, because MPI_IN_PLACE is not valid as the receive buffer.
static int refused_gather(const shampoo_comm_ops* ops) {
  char byte = 0;
  return ops->all_gather(ops->user, &byte, MPI_IN_PLACE, 1, NULL);
}

// Makes an all-to-all that fails on rank 0, because rank 1 sends one byte more than rank 0 expects. If there are more
// than two ranks, rank 0 also waits for the last rank, which does not send.
static int failing_exchange(const shampoo_comm_ops* ops) {
  size_t send_bytes[4] = {0, 0, 0, 0}, recv_bytes[4] = {0, 0, 0, 0};
  const char send[2] = {1, 2};
  char recv[2] = {0, 0};
  REQUIRE(world > 1 && world <= 4);
  if (rank == 0) recv_bytes[1] = recv_bytes[world - 1] = 1;
  if (rank == 1) send_bytes[0] = 2;
  return ops->all_to_all(ops->user, send, send_bytes, recv, recv_bytes, NULL);
}

static void check_failing_exchange(const shampoo_comm_ops* ops) {
  int class_of_error = MPI_SUCCESS;
  const int error = failing_exchange(ops);
  if (rank == 0) MPI_Error_class(error, &class_of_error);
  REQUIRE(rank == 0 ? class_of_error == MPI_ERR_TRUNCATE : error == 0);
  // If there are more than two ranks, rank 0 has not received the message that it expected from the last rank. The next
  // message of the last rank belongs to a later exchange, and rank 0 must receive it only in that exchange.
  gather(ops, 0, 0, 1, 1);
  exchange_often(ops, 0);
}

// Checks an all-to-all in which the sends of all ranks fail while each rank already waits for a byte from the others.
static void check_refused_send(const shampoo_comm_ops* ops) {
  const size_t bytes[4] = {1, 1, 1, 1};
  const char send[4] = {1, 2, 3, 4};
  char recv[4] = {0, 0, 0, 0};
  REQUIRE(world <= 4);
  refuse_sends = 1;
  REQUIRE(ops->all_to_all(ops->user, send, bytes, recv, bytes, NULL) == (world > 1 ? MPI_ERR_OTHER : MPI_SUCCESS));
  refuse_sends = 0;
  gather(ops, 0, 0, 1, 1);
  exchange_often(ops, 0);
}

// Checks that the callbacks return errors of MPI. The default error handler of MPI_COMM_WORLD would end the job
// instead.
static void check_error_returned(void) {
  shampoo_comm_ops ops;
  int class_of_error = MPI_SUCCESS;
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, &ops) == MPI_SUCCESS);
  MPI_Error_class(refused_gather(&ops), &class_of_error);
  REQUIRE(class_of_error == MPI_ERR_ARG || class_of_error == MPI_ERR_BUFFER);
  gather(&ops, 0, 5, 40, 1);
  check_refused_send(&ops);
  if (world > 1) check_failing_exchange(&ops);
  ops.release(ops.user);
}

// Makes a collective fail on rank 0. Rank 0 then aborts the job while the other ranks wait.
static void abort_job(const char* collective) {
  shampoo_comm_ops ops;
  REQUIRE(shampoo_mpi_ops(MPI_COMM_WORLD, &ops) == MPI_SUCCESS);
  if (strcmp(collective, "all-to-all") == 0) {
    if (failing_exchange(&ops) != 0) ops.abort(ops.user);
  } else {
    if (rank == 0 && refused_gather(&ops) != 0) ops.abort(ops.user);
  }
  gather(&ops, 0, 0, 1, 1);
}

// Kills the last rank between two collectives. In the second collective, the other ranks wait for the killed rank.
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
  if (argc > 2 && strcmp(argv[1], "abort") == 0) abort_job(argv[2]);
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
  // The callback `release` must also work after MPI_Finalize.
  late.release(late.user);
  if (rank == 0) puts("ok");
  return 0;
}
