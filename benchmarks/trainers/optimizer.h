// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer of libshampoo that is described by two strings of options. All trainers of the benchmarks create their
// optimizers with these functions, so a method means the same in each trainer.
#ifndef BENCHMARKS_OPTIMIZER_H
#define BENCHMARKS_OPTIMIZER_H

#include <shampoo/shampoo.h>

#include "real.h"

// A method. Its options are strings with keys of docs/keys.md, such as "preset=soap lr=0.003 weight_decay=0.1".
typedef struct {
  const char* options;  // options for the matrices inside the model; if `rest` is NULL, for all parameters
  const char* rest;     // options for embeddings, output layers and vectors, or NULL
} Method;

// A parameter. Vectors have no weight decay.
typedef struct {
  const char* name;
  int is_rest;  // 1: an embedding or an output layer. Vectors use Method::rest even if is_rest is 0.
  int stacked;  // 1: the first dim stacks separate matrices
  int ndim;
  int shape[4];
  real* param;
  const real* grad;
} BoundTensor;

// Groups: the matrices inside the model; embeddings and output layers; vectors.
enum { kInside, kEnds, kVectors, kOptimizerGroups };

typedef struct {
  shampoo_optimizer* handle;
  double peak[kOptimizerGroups];  // largest learning rate of each group: the key lr of its options
  int64_t state_bytes;
} Optimizer;

// Creates an optimizer that is bound to the parameters. Steps run on the executor. If the executor is NULL, they run on
// `threads` threads of the library.
void optimizer_create(Optimizer* optimizer, const Method* method, int count, const BoundTensor* tensors,
                      const shampoo_executor* executor, int threads);
void optimizer_free(Optimizer* optimizer);

// Makes one step with `share` times the largest learning rates, and returns 1. Returns 0, without updating parameters
// and states, if a gradient is not finite or would overflow a state, or if the previous step skipped an update that was
// not finite.
int optimizer_step(Optimizer* optimizer, double share);

// Returns the argument `share` of optimizer_step() for step number `step`, counted from 0. The share rises linearly in
// the first `warmup` steps, and then falls to 0 along half a cosine.
double schedule_share(int step, int steps, int warmup);

// The methods on the command line: `--optimizer OPTIONS` adds a method, and `--rest OPTIONS` sets Method::rest of the
// method that was added last.
enum { kMaxMethods = 32 };

typedef struct {
  int count;
  Method methods[kMaxMethods];
} MethodList;

void method_list_add(void* list, const char* options);
void method_list_set_rest(void* list, const char* options);

#endif
