// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef C_MPI_TRAINER_H
#define C_MPI_TRAINER_H

#include "options.h"
#include "ranks.h"

// Trains the network on all ranks, and prints the results on rank 0. Returns whether all ranks end with
// bit-identical parameters. Collective.
int train(const Options* options, const Ranks* ranks);

#endif
