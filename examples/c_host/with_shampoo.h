// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The optimizer of libshampoo: its creation, steps, messages and counters. See checkpoint.h for checkpoints.
#ifndef C_HOST_WITH_SHAMPOO_H
#define C_HOST_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "network.h"
#include "settings.h"

// Numbers of the parameter groups.
enum { kHiddenWeights, kBiases, kLastWeight, kGroups };

typedef struct {
  shampoo_optimizer* optimizer;
  double lr[kGroups];  // largest learning rate of each group
  // The plan predicts the next two sizes.
  int64_t state_bytes;
  int64_t workspace_bytes;
} WithShampoo;

// Sets a log callback that prints the library's messages up to `level` to stderr; see shampoo_set_log().
void with_shampoo_log(int level);

// Creates an optimizer for the parameters of the network, and binds the buffers of parameters and gradients.
void with_shampoo_create(WithShampoo* shampoo, const Network* net, const Settings* settings);
void with_shampoo_free(WithShampoo* shampoo);

// Prepares the next step: sets the learning rate of each group g to share * shampoo->lr[g], and the key gradient_scale
// to 1 / loss_scale.
void with_shampoo_prepare(WithShampoo* shampoo, double share, double loss_scale);

// Makes one step and returns 1. If the library rejects the step with SHAMPOO_E_NUMERIC, returns 0: the step has changed
// nothing, and shampoo_last_error() has the reason. Exits after other errors.
int with_shampoo_step(WithShampoo* shampoo);

// Returns the counter `key` of the optimizer; see shampoo_optimizer_stat().
double with_shampoo_stat(const WithShampoo* shampoo, const char* key);

#endif
