// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the transformer of examples/c_transformer on a text, with one method or with several that take turns.
#ifndef BENCHMARKS_LANGUAGE_TRAINING_H
#define BENCHMARKS_LANGUAGE_TRAINING_H

#include "batch.h"
#include "corpus.h"
#include "model.h"
#include "optimizer.h"
#include "pool.h"

enum { kMaxPoints = 64, kMaxBatches = 16 };

typedef struct {
  int steps, warmup;
  int every;    // steps between evaluations; 0: evaluate only after the last step
  int batch;    // sequences in a step
  int seed;     // seed of the initial weights and of the batches
  int windows;  // sequences in an evaluation; they begin at equal distances in the validation text
} TrainingOptions;

// The training with one method. Sizes of arrays are in brackets; [values] is the number of elements of all parameters.
typedef struct {
  Optimizer optimizer;
  real* params;              // [values]
  double* losses;            // [steps], training loss of the batch of each step, before the step
  double* gradient_seconds;  // [steps]
  double* update_seconds;    // [steps]
  int steps;                 // number of steps that were made
  int diverged;              // 1: a loss, gradient or update was not finite, so no more steps are made
  int point_count;
  int point_steps[kMaxPoints];
  double point_losses[kMaxPoints];  // validation losses
} Contender;

typedef struct {
  const TrainingOptions* options;
  const Corpus* text;
  const Corpus* validation;
  const Model* model;
  Pool* pool;
  Batch batch;
  real* grads;  // [values], of the contender whose turn it is
  int count;
  Contender contenders[kMaxMethods];
} Training;

// Creates a contender for each method. All contenders start from the same weights, and use the same batches.
void training_create(Training* training, const TrainingOptions* options, const Corpus* text, const Corpus* validation,
                     const Model* model, Pool* pool, const MethodList* methods);
void training_free(Training* training);

// Makes all steps. Contenders take turns step by step, so that other load on the machine affects all of them equally.
// Before each step, the function also times one gradient for each of the `count` batch sizes in `batches`:
// times[i * steps + step] receives the seconds for the gradient of batches[i] sequences.
void training_run(Training* training, int count, const int* batches, double* times);

#endif
