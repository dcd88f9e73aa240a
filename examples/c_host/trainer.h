// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The trainer's own state: the position in the data and the loss scale. Together with the parameters and the state of
// the optimizer, it is all that a run needs to continue.
#ifndef C_HOST_TRAINER_H
#define C_HOST_TRAINER_H

#include <stdint.h>

#include "digits.h"
#include "options.h"

// Written to checkpoints byte by byte.
typedef struct {
  // These determine the order of the images and the schedule. A resumed run must have the same values.
  int32_t seed, batch, epochs, warmup, train_count;
  int32_t step;  // batches taken, including rejected ones
  int32_t steps_per_epoch;
  int32_t rejected;  // number of rejected batches
  int32_t rejected_in_a_row;
  int32_t good_in_a_row;  // steps made since the last rejection or the last increase of the scale
  uint64_t data_hash;     // hash of the training images and labels
  double loss_scale;
  double epoch_loss;  // sum over the images of this epoch so far
} Trainer;

void trainer_begin(Trainer* trainer, const Options* options, const Digits* digits);
int trainer_steps(const Trainer* trainer);  // number of steps of the whole training

// Returns the learning rate of the next step relative to the largest one: linear warm-up, then cosine decay to 0.
double trainer_share(const Trainer* trainer);

// Returns the initial state of the random generator for an epoch, counted from 1. Epoch 0 means the initial weights.
// The state depends on the seed and the epoch only, so checkpoints need not contain it.
uint64_t trainer_random(const Trainer* trainer, int epoch);

// Count the batch and adapt the loss scale: trainer_made() after a step that was made, trainer_rejected() after a step
// that was rejected.
void trainer_made(Trainer* trainer);
void trainer_rejected(Trainer* trainer);

#endif
