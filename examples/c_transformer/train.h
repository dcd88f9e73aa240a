// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains several contenders. A contender is an optimizer with its own copy of the parameters. All contenders start from
// the same weights and use the same batches, so that only the optimizer differs. They take turns step by step, so that
// other load on the machine affects all of them equally.
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
  int step;                // number of steps before the evaluation
  double seconds;          // time of all gradients and updates before the evaluation
  double train_loss;       // mean loss of the steps since the previous evaluation; NaN at step 0
  double validation_loss;  // mean over the validation text
} Point;

typedef struct {
  char name[48];
  int optimizer;  // a constant of options.h, such as kAdamw
  int frequency;  // precondition_frequency; 0: the value in options->settings, or else the default
  double lr;      // largest learning rate
  real* params;   // [model->values]
  AdamW adamw;
  WithShampoo shampoo;
  double* gradient_seconds;  // [steps]
  double* update_seconds;    // [steps]
  double* losses;            // [steps], loss on the batch of each step, before the update
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
  real* grads;  // [model->values], gradient of the current contender
  int step;
  int count;
  Contender contenders[kMaxContenders];
} Training;

// Creates all contenders. Before the call, set training->count, and the name, optimizer, frequency and lr of the first
// `count` contenders.
void training_create(Training* training, const Options* options, const Text* text, const Model* model, Pool* pool);
void training_free(Training* training);

// Makes all steps. Calls `on_evaluation` after every evaluation and `on_step` after each step.
void training_run(Training* training, void (*on_evaluation)(const Training*), void (*on_step)(const Training*));

// Returns the learning rate of a step, as a fraction of the largest learning rate. Steps are counted from 0.
double training_schedule(const Options* options, int step);

#endif
