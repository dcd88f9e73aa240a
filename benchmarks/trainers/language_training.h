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
  int every;    // steps between evaluations; 0: only at the end
  int batch;    // sequences in a step
  int seed;     // seed of the initial weights and of the batches
  int windows;  // sequences of the validation text that are evaluated, at equal distances
} TrainingOptions;

// A method in training.
typedef struct {
  Optimizer optimizer;
  real* params;              // [values]
  double* losses;            // [steps], training loss before each step
  double* gradient_seconds;  // [steps]
  double* update_seconds;    // [steps]
  int steps;                 // steps made
  int diverged;              // 1: a loss or an update was not finite, and no more steps are made
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
  real* grads;  // [values], of the current contender
  int count;
  Contender contenders[kMaxMethods];
} Training;

// Creates the contenders. All start from the same weights, and use the same batches.
void training_create(Training* training, const TrainingOptions* options, const Corpus* text, const Corpus* validation,
                     const Model* model, Pool* pool, const MethodList* methods);
void training_free(Training* training);

// Makes all steps. Contenders take turns step by step, so that other load on the machine affects all of them equally.
// Before each step, also measures how long a gradient takes with other batch sizes: for each i below count,
// times[i * steps + step] receives the seconds for the gradient of batches[i] sequences.
void training_run(Training* training, int count, const int* batches, double* times);

#endif
