// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The trainer's own state, such as the number of batches so far and the loss scale. To continue an interrupted run, the
// program loads this state, the parameters and the state of the optimizer.
#ifndef C_HOST_TRAINER_H
#define C_HOST_TRAINER_H

#include <stdint.h>

#include "digits.h"
#include "options.h"

// Checkpoints contain the bytes of this struct.
typedef struct {
  // The next five fields determine the order of the images and the learning-rate schedule. A resumed run must not
  // change them.
  int32_t seed, batch, epochs, warmup, train_count;
  int32_t step;  // number of batches so far, including rejected batches
  int32_t steps_per_epoch;
  int32_t rejected;  // number of rejected batches
  int32_t rejected_in_a_row;
  int32_t good_in_a_row;  // number of consecutive successful steps; set to 0 when the loss scale is doubled
  uint64_t data_hash;     // hash of the training images and labels
  double loss_scale;
  double epoch_loss;  // sum of the losses of all images that this epoch has used so far
} Trainer;

void trainer_begin(Trainer* trainer, const Options* options, const Digits* digits);
int trainer_steps(const Trainer* trainer);  // number of batches of the whole training

// Returns the learning rate of the next step as a share of the largest rate. The share grows linearly during the
// warm-up, then falls to 0 along half a cosine.
double trainer_share(const Trainer* trainer);

// Returns the initial state of the random generator for an epoch. The first epoch is 1. For `epoch` 0, returns the
// state with which the initial weights are drawn. The state depends only on the seed and the epoch, so checkpoints need
// not contain it.
uint64_t trainer_random(const Trainer* trainer, int epoch);

// Call trainer_made() after a successful step, and trainer_rejected() after a rejected step. Both functions count the
// batch and adapt the loss scale.
void trainer_made(Trainer* trainer);
void trainer_rejected(Trainer* trainer);

#endif
