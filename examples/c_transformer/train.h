// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The training. All contenders start from the same weights and use the same batches, so that only the optimizer
// differs. They take turns step by step, so that other load on the machine affects all of them equally.
#ifndef C_TRANSFORMER_TRAIN_H
#define C_TRANSFORMER_TRAIN_H

#include "adamw.h"
#include "batch.h"
#include "options.h"
#include "text.h"
#include "with_shampoo.h"

enum { kMaxContenders = 5 };

// An evaluation of a contender.
typedef struct {
  int step;                // steps made
  double seconds;          // time of gradients and updates, without evaluations
  double train_loss;       // mean of the steps since the previous evaluation; NaN at step 0
  double validation_loss;  // mean over the validation text
} Point;

typedef struct {
  char name[48];
  int optimizer;  // kAdamw, kShampoo, ...
  int frequency;  // precondition_frequency; 0: the value of the settings
  double lr;      // largest learning rate
  real* params;   // [values]
  AdamW adamw;
  WithShampoo shampoo;
  double* gradient_seconds;  // [steps]
  double* update_seconds;    // [steps]
  double* losses;            // [steps], before the step
  int point_count;
  Point* points;
  int diverged;  // 1: the loss is not finite, and the contender makes no more steps
} Contender;

typedef struct {
  const Options* options;
  const Text* text;
  const Model* model;
  Pool* pool;
  Batch batch;
  real* grads;  // [values], of the current contender
  int step;
  int count;
  Contender contenders[kMaxContenders];
} Training;

// Creates all contenders. The caller has set training->count, and the name, optimizer, frequency and lr of the first
// `count` contenders.
void training_create(Training* training, const Options* options, const Text* text, const Model* model, Pool* pool);
void training_free(Training* training);

// Makes all steps. Calls `on_evaluation` after every evaluation and `on_step` after each step.
void training_run(Training* training, void (*on_evaluation)(const Training*), void (*on_step)(const Training*));

// Returns the learning rate of a step, counted from 0, relative to the largest one.
double training_schedule(const Options* options, int step);

#endif
