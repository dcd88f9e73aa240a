// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Everything that this program does with libshampoo.
#ifndef C_TRANSFORMER_WITH_SHAMPOO_H
#define C_TRANSFORMER_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "model.h"
#include "pool.h"
#include "settings.h"

typedef struct {
  shampoo_optimizer* optimizer;
  int64_t state_bytes;  // memory of the state
  int64_t blocks;       // into which the parameters were cut
} WithShampoo;

// Makes an optimizer for the parameters of the model, bound to params and grads [values], whose steps run on the pool.
// `settings` are texts "key=value" in the spelling of docs/keys.md, later ones over earlier ones; `frequency`, where it
// is above 0, is the precondition_frequency whatever they say.
void with_shampoo_create(WithShampoo* shampoo, const Model* model, Pool* pool, real* params, const real* grads,
                         const Settings* settings, int frequency);
void with_shampoo_free(WithShampoo* shampoo);

// One step: reads the gradients and moves the parameters.
void with_shampoo_step(WithShampoo* shampoo, double lr);

// A number that the library knows of the optimizer, such as "root_computed", "root_retried" or "root_reused".
double with_shampoo_stat(const WithShampoo* shampoo, const char* key);

#endif
