// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints. Except with --shards local, a run with another number of ranks can continue from them. The library saves
// the state of the optimizer, and rank 0 saves the parameters.
#ifndef C_MPI_CHECKPOINT_H
#define C_MPI_CHECKPOINT_H

#include "mlp.h"
#include "ranks.h"
#include "with_shampoo.h"

// Saves a checkpoint after an epoch. net has the whole parameters. Collective.
void checkpoint_save(const char* directory, const Ranks* ranks, const WithShampoo* shampoo, const Mlp* net, int epoch);

// Loads parameters and state. Returns the number of epochs that the saved run had completed. Collective.
int checkpoint_load(const char* directory, const WithShampoo* shampoo, Mlp* net, int steps_per_epoch);

#endif
