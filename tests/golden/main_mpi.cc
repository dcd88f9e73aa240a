// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// The program shampoo_replay_mpi. It has the options of main.cc, but every process of mpirun is a rank.
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
  ops.release = nullptr;  // each case creates its own shampoo_comm from these callbacks
  const int status = shampoo::golden::RunReplay(argc, argv, &ops);
  MPI_Finalize();
  return status;
}
