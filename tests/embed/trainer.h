// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_TESTS_EMBED_TRAINER_H
#define SHAMPOO_TESTS_EMBED_TRAINER_H

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

// A model to train: settings of group 0 and, unless NULL, of group 1; parameters; dtype of parameters and gradients.
typedef struct workload {
  const setting* settings;
  const setting* second_group;
  const param_shape* params;
  int param_count;
  int32_t dtype;
  int32_t threads;
} workload;

// Parameters of order 1 to 4 in two groups, with several blocks, grafting, momentum and weight decay, in float32.
workload workload_default(int32_t threads);

// An optimizer with its buffers, which have the same numbers in every run.
typedef struct trainer {
  const api* functions;
  shampoo_optimizer* optimizer;
  workload work;
  int steps_made;
  int64_t elements[TRAINER_MAX_PARAMS];
  double param[TRAINER_MAX_PARAMS][TRAINER_MAX_ELEMENTS];  // storage for elements of any dtype
  double grad[TRAINER_MAX_PARAMS][TRAINER_MAX_ELEMENTS];
  double copy[TRAINER_MAX_PARAMS][TRAINER_MAX_ELEMENTS];
} trainer;

// Returns a finished plan, which the caller destroys.
shampoo_plan* trainer_plan(const api* functions, const workload* work);

// Sets the parameters to their initial values.
void trainer_reset(trainer* t);

// Creates the optimizer and binds its buffers. desc: NULL selects the defaults. On failure, the functions of this file
// end the program with a message.
void trainer_begin(trainer* t, const api* functions, const workload* work, const shampoo_optimizer_desc* desc);
void trainer_bind(trainer* t);
// Writes the gradients of this step.
void trainer_fill_gradients(trainer* t, int step);
void trainer_step(trainer* t, int steps);
void trainer_end(trainer* t);
// Returns a hash of all bits of all parameters and copies.
uint64_t trainer_hash(const trainer* t);

// Creates a trainer, makes the steps, destroys the trainer, and returns the hash.
uint64_t train(const api* functions, const workload* work, int steps);

#ifdef __cplusplus
}
#endif

#endif
