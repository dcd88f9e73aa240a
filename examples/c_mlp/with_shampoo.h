// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Everything that this program does with libshampoo.
#ifndef C_MLP_WITH_SHAMPOO_H
#define C_MLP_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "mlp.h"
#include "settings.h"

typedef struct {
  shampoo_optimizer* optimizer;
  double lr;            // the learning rate that it was made with
  int64_t state_bytes;  // memory of the state
} WithShampoo;

// Makes an optimizer for the parameters of the network, bound to their buffers. `settings` are texts "key=value" in
// the spelling of docs/keys.md, later ones over earlier ones.
void with_shampoo_create(WithShampoo* shampoo, const Mlp* net, const Settings* settings);
void with_shampoo_free(WithShampoo* shampoo);

// One step: reads the gradients of the network and moves its parameters.
void with_shampoo_step(WithShampoo* shampoo);

// Changes the learning rate from the next step on.
void with_shampoo_set_lr(WithShampoo* shampoo, double lr);

// Inverse roots computed so far.
double with_shampoo_roots(const WithShampoo* shampoo);

#endif
