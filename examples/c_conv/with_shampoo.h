// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The optimizer of libshampoo. All calls to the library are in with_shampoo.c, except shampoo_version() and the calls
// in ../common.
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

// Creates an optimizer for the parameters of the network, and binds the buffers of parameters and gradients.
void with_shampoo_create(WithShampoo* shampoo, const Network* net, const Options* options);
void with_shampoo_free(WithShampoo* shampoo);

// Makes one step: reads the gradients of the network and updates its parameters. Returns 1 if the step succeeds. If the
// training has diverged, prints the library's message, changes nothing and returns 0.
int with_shampoo_step(WithShampoo* shampoo);

// Changes the learning rate from the next step on.
void with_shampoo_set_lr(WithShampoo* shampoo, double lr);

// Returns the number of inverse roots computed so far.
double with_shampoo_roots(const WithShampoo* shampoo);

#endif
