// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The training: contenders that begin with the same weights and see the same batches, step by step in turn, so that
// only the optimizer differs, and a busy machine disturbs all alike.
#ifndef C_TRANSFORMER_TRAIN_H
#define C_TRANSFORMER_TRAIN_H

#include "adamw.h"
#include "batch.h"
#include "options.h"
#include "text.h"
#include "with_shampoo.h"

enum { kMaxContenders = 10 };

// A look at a contender.
typedef struct {
  int step;            // steps made
  double seconds;      // that they took: gradients and updates, without looks like this one
  double train_loss;   // mean of the steps since the look before; NaN at step 0
  double judged_loss;  // of text that is not learnt from
} Point;

typedef struct {
  char name[48];
  int uses_shampoo;
  int frequency;  // of new inverse roots; 0: as the settings say
  double lr;      // the largest
  real* params;   // [values]
  AdamW adamw;
  WithShampoo shampoo;
  double* gradient_seconds;  // [steps]
  double* update_seconds;    // [steps]
  double* losses;            // [steps], before the step
  int point_count;
  Point* points;
  int diverged;  // 1: its loss is not finite any more, and it stays where it is
} Contender;

typedef struct {
  const Options* options;
  const Text* text;
  const Model* model;
  Pool* pool;
  Batch batch;
  real* grads;  // [values], of whose turn it is
  int step;
  int count;
  Contender contenders[kMaxContenders];
} Training;

// Creates what the names, kinds, frequencies and learning rates of training->contenders [count] ask for, and the rest.
void training_create(Training* training, const Options* options, const Text* text, const Model* model, Pool* pool);
void training_free(Training* training);

// Makes all steps. `on_look` is called after every look at the contenders, `on_step` after each step.
void training_run(Training* training, void (*on_look)(const Training*), void (*on_step)(const Training*));

// The learning rate of a step, counted from 0, as a share of the largest.
double training_schedule(const Options* options, int step);

#endif
