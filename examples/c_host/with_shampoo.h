// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The calls to libshampoo that a training run makes, except those for checkpoints.
#ifndef C_HOST_WITH_SHAMPOO_H
#define C_HOST_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "network.h"
#include "settings.h"

enum { kHiddenWeights, kBiases, kLastWeight, kGroups };

typedef struct {
  shampoo_optimizer* optimizer;
  double lr[kGroups];   // learning rate of each group, before the schedule
  int64_t state_bytes;  // predicted by the plan
  int64_t workspace_bytes;
} WithShampoo;

// Prints messages of the library up to this level to stderr; see shampoo_set_log().
void with_shampoo_log(int level);

// Creates an optimizer for the parameters of the network, bound to their buffers.
void with_shampoo_create(WithShampoo* shampoo, const Network* net, const Settings* settings);
void with_shampoo_free(WithShampoo* shampoo);

// Sets, for the next step, each group's learning rate to its own rate times `share`, and gradient_scale to 1 /
// loss_scale.
void with_shampoo_prepare(WithShampoo* shampoo, double share, double loss_scale);

// Returns 1 if a step was made, and 0 if it was rejected with SHAMPOO_E_NUMERIC. A rejected step has changed nothing,
// and shampoo_last_error() has the reason.
int with_shampoo_step(WithShampoo* shampoo);

// Returns a counter of the optimizer. The counters that this program reads are 0 when the optimizer is created.
double with_shampoo_stat(const WithShampoo* shampoo, const char* key);

#endif
