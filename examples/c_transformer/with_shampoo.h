// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The optimizer of libshampoo, and all calls to the library except shampoo_version() and the calls in ../common.
#ifndef C_TRANSFORMER_WITH_SHAMPOO_H
#define C_TRANSFORMER_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "model.h"
#include "pool.h"
#include "settings.h"

typedef struct {
  shampoo_optimizer* optimizer;
  int64_t state_bytes;  // size of the state
  int64_t blocks;       // number of blocks
} WithShampoo;

// Creates an optimizer for the parameters of the model, and binds the buffers params and grads, which have
// model->values elements each. Steps run on the threads of the pool. If `preset` is not NULL, its defaults apply to
// keys that are not in the settings. If `frequency` is above 0, it replaces the precondition_frequency of the settings.
// `lr` is the largest learning rate of the schedule.
void with_shampoo_create(WithShampoo* shampoo, const Model* model, Pool* pool, real* params, const real* grads,
                         const char* preset, const Settings* settings, int frequency, double lr);
void with_shampoo_free(WithShampoo* shampoo);

// Makes one step with learning rate `lr`: reads the gradients and updates the parameters.
void with_shampoo_step(WithShampoo* shampoo, double lr);

// Returns a counter of the optimizer, such as "root_computed", "root_retried" or "root_reused".
double with_shampoo_stat(const WithShampoo* shampoo, const char* key);

#endif
