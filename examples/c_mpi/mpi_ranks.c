// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <shampoo/shampoo_mpi.h>

#include "check.h"
#include "ranks.h"

static MPI_Datatype real_type(void) { return sizeof(real) == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT; }

static MPI_Comm comm_of(const Ranks* ranks) { return *(const MPI_Comm*)ranks->comm; }

// The return codes of MPI_Allreduce and MPI_Allgather are not checked: by default, MPI ends the job on an error.
void ranks_sum(const Ranks* ranks, real* values, int count) {
  MPI_Allreduce(MPI_IN_PLACE, values, count, real_type(), MPI_SUM, comm_of(ranks));
}

void ranks_gather(const Ranks* ranks, const void* own, void* all, int bytes) {
  MPI_Allgather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm_of(ranks));
}

void ranks_ops(const Ranks* ranks, shampoo_comm_ops* ops) {
  if (shampoo_mpi_ops(comm_of(ranks), ops) != MPI_SUCCESS) fail("cannot duplicate the MPI communicator");
}
