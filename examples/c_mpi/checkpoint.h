// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A training that can be ended and gone on with, by any number of ranks: the library saves the state of the optimizer,
// and rank 0 the parameters.
#ifndef C_MPI_CHECKPOINT_H
#define C_MPI_CHECKPOINT_H

#include "mlp.h"
#include "ranks.h"
#include "with_shampoo.h"

// After so many epochs. net has the whole parameters. Collective.
void checkpoint_save(const char* directory, const Ranks* ranks, const WithShampoo* shampoo, const Mlp* net, int epoch);

// Brings parameters and state back; returns the epochs that they have been trained for. Collective.
int checkpoint_load(const char* directory, const WithShampoo* shampoo, Mlp* net, int steps_per_epoch);

#endif
