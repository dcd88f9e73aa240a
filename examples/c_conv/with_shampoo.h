// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// All calls to libshampoo, except shampoo_version() and the calls in ../common.
#ifndef C_CONV_WITH_SHAMPOO_H
#define C_CONV_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "network.h"
#include "options.h"

typedef struct {
  shampoo_optimizer* optimizer;
  double lr;            // initial learning rate
  int64_t state_bytes;  // size of the state
} WithShampoo;

// Creates an optimizer for the parameters of the network, bound to their buffers.
void with_shampoo_create(WithShampoo* shampoo, const Network* net, const Options* options);
void with_shampoo_free(WithShampoo* shampoo);

// Makes one step: reads the gradients of the network and updates its parameters. Returns 1, or 0 if the training has
// diverged. In that case nothing has changed, and the library's message was printed.
int with_shampoo_step(WithShampoo* shampoo);

// Changes the learning rate from the next step on.
void with_shampoo_set_lr(WithShampoo* shampoo, double lr);

// Returns the number of inverse roots computed so far.
double with_shampoo_roots(const WithShampoo* shampoo);

#endif
