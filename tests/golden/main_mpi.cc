// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// The program shampoo_replay_mpi. It has the options of main.cc. The ranks are the processes of mpirun.
#include <mpi.h>
#include <shampoo/shampoo_mpi.h>

#include <iostream>

#include "tests/golden/replay_program.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
  if (shampoo_mpi_ops(MPI_COMM_WORLD, &ops) != MPI_SUCCESS) {
    std::cerr << "shampoo_replay_mpi: shampoo_mpi_ops failed\n";
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  // Destroying the shampoo_comm of a case must not free ops.user, which the next case needs.
  ops.release = nullptr;
  const int status = shampoo::golden::RunReplay(argc, argv, &ops);
  MPI_Finalize();
  return status;
}
