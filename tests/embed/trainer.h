// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_TESTS_EMBED_TRAINER_H
#define SHAMPOO_TESTS_EMBED_TRAINER_H

// A short training run with fixed initial parameters and gradients. Programs in tests/embed compare the hashes of such
// runs. If a call of the library fails, the functions of this file end the program with a message.

#include "tests/embed/api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TRAINER_MAX_PARAMS = 8, TRAINER_MAX_ELEMENTS = 2048 };

// A key of a config and its value. A list of settings ends with a NULL key.
typedef struct setting {
  const char* key;
  const char* value;
} setting;

typedef struct param_shape {
  const char* name;
  int32_t ndim;
  int64_t shape[4];
  int32_t group;        // 0 or 1
  int32_t no_gradient;  // 1: bound with grad NULL
} param_shape;

// A model to train.
typedef struct workload {
  const setting* settings;      // of group 0
  const setting* second_group;  // settings of group 1, or NULL if there is no group 1
  const param_shape* params;
  int param_count;
  int32_t dtype;  // of parameters and gradients
  int32_t threads;
} workload;

// Returns a float32 model with two groups and with parameters of order 1 to 4. The settings of group 0 include
// grafting, momentum and weight decay.
workload workload_default(int32_t threads);

// An optimizer with its buffers. The initial parameters and the gradients are the same in every run.
typedef struct trainer {
  const api* functions;
  shampoo_optimizer* optimizer;
  workload work;
  int steps_made;
  int64_t elements[TRAINER_MAX_PARAMS];
  double param[TRAINER_MAX_PARAMS][TRAINER_MAX_ELEMENTS];  // storage for elements of any dtype
  double grad[TRAINER_MAX_PARAMS][TRAINER_MAX_ELEMENTS];
  double copy[TRAINER_MAX_PARAMS][TRAINER_MAX_ELEMENTS];  // bound as shampoo_buffers.copy
} trainer;

// Returns a finished plan, which the caller destroys.
shampoo_plan* trainer_plan(const api* functions, const workload* work);

// Sets the parameters to their initial values.
void trainer_reset(trainer* t);

// Creates the optimizer and binds its buffers. If desc is NULL, uses SHAMPOO_OPTIMIZER_DESC_INIT.
void trainer_begin(trainer* t, const api* functions, const workload* work, const shampoo_optimizer_desc* desc);
void trainer_bind(trainer* t);
// Writes the gradients of step number `step`, counted from 0, to the buffers.
void trainer_fill_gradients(trainer* t, int step);
void trainer_step(trainer* t, int steps);
void trainer_end(trainer* t);
// Returns a hash of all bits of the arrays param and copy.
uint64_t trainer_hash(const trainer* t);

// Creates a trainer, makes `steps` steps, and destroys the trainer. Returns the trainer_hash() after the last step.
uint64_t train(const api* functions, const workload* work, int steps);

#ifdef __cplusplus
}
#endif

#endif
