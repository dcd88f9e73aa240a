// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Saves and loads checkpoints. The library saves the state of the optimizer, and rank 0 saves the parameters. A run
// with another number of ranks can load a checkpoint, unless this run or the run that saved uses --shards local.
#ifndef C_MPI_CHECKPOINT_H
#define C_MPI_CHECKPOINT_H

#include "mlp.h"
#include "ranks.h"
#include "with_shampoo.h"

// Saves a checkpoint after `epoch` completed epochs. net must contain all parameters. Collective.
void checkpoint_save(const char* directory, const Ranks* ranks, const WithShampoo* shampoo, const Mlp* net, int epoch);

// Loads parameters and state. steps_per_epoch must be that of the run that saved the checkpoint. Returns the number of
// epochs that this run had completed. Collective.
int checkpoint_load(const char* directory, const WithShampoo* shampoo, Mlp* net, int steps_per_epoch);

#endif
