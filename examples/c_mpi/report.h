// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Prints the output of a run: a row for each epoch during the training, and a row for each rank at the end. Only rank 0
// prints. Therefore only rank 0 calls report_head() and report_epoch().
#ifndef C_MPI_REPORT_H
#define C_MPI_REPORT_H

#include "digits.h"
#include "mlp.h"
#include "options.h"
#include "ranks.h"
#include "with_shampoo.h"

void report_head(const Options* options, const Ranks* ranks, const WithShampoo* shampoo, const Digits* digits,
                 int steps_per_epoch);
void report_epoch(int epoch, double loss, double accuracy);

// Prints a row for each rank. Returns whether the parameters are bit-identical on all ranks. Collective.
int report_ranks(const Ranks* ranks, const WithShampoo* shampoo, const Mlp* net);

#endif
