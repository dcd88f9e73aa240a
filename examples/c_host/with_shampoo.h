// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// All calls of libshampoo except those for checkpoints.
#ifndef C_HOST_WITH_SHAMPOO_H
#define C_HOST_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "network.h"
#include "settings.h"

enum { kHiddenWeights, kBiases, kLastWeight, kGroups };

typedef struct {
  shampoo_optimizer* optimizer;
  double lr[kGroups];   // learning rate of each group, before the schedule
  int64_t state_bytes;  // as the plan foretold them
  int64_t workspace_bytes;
} WithShampoo;

// Messages of the library up to this level go to the standard error stream; see shampoo_set_log().
void with_shampoo_log(int level);

// Creates an optimizer for the parameters of the network, bound to their buffers.
void with_shampoo_create(WithShampoo* shampoo, const Network* net, const Settings* settings);
void with_shampoo_free(WithShampoo* shampoo);

// For the next step: the schedule's share of each group's learning rate, and the scale that is in the gradients.
void with_shampoo_prepare(WithShampoo* shampoo, double share, double loss_scale);

// 1: a step was made. 0: it was rejected, and nothing has changed: the gradients have a NaN or an infinity, or the
// library has met one of its own; shampoo_last_error() has more.
int with_shampoo_step(WithShampoo* shampoo);

// A counter of the optimizer, since this process made it.
double with_shampoo_stat(const WithShampoo* shampoo, const char* key);

#endif
