// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the network of examples/c_mlp on handwritten digits, on several MPI ranks.
#include <mpi.h>
#include <stdlib.h>

#include "options.h"
#include "ranks.h"
#include "trainer.h"

const char program_name[] = "train_digits_mpi";

int main(int argc, char** argv) {
  Options options;
  MPI_Comm world = MPI_COMM_WORLD;
  Ranks ranks = {.how = "MPI", .comm = &world};
  options_parse(&options, argc, argv, NULL);  // before MPI_Init, so that --help and errors can exit normally
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(world, &ranks.rank);
  MPI_Comm_size(world, &ranks.world);

  const int same = train(&options, &ranks);
  settings_free(&options.settings);
  MPI_Finalize();
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
