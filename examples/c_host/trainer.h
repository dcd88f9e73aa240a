// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The trainer's own state: where it is in the data, and how gradients are scaled. With the parameters and the state of
// the optimizer it is all that a training needs to go on.
#ifndef C_HOST_TRAINER_H
#define C_HOST_TRAINER_H

#include <stdint.h>

#include "digits.h"
#include "options.h"

// Written to checkpoints as it lies in memory.
typedef struct {
  // What the order of the images and the schedule follow from: a run that goes on must have the same.
  int32_t seed, batch, epochs, warmup, train_count;
  int32_t step;  // batches taken, the rejected ones among them
  int32_t steps_per_epoch;
  int32_t rejected;  // batches whose gradients were rejected, in all
  int32_t rejected_in_a_row;
  int32_t good_in_a_row;  // since the last one that was rejected, or the last raise of the scale
  uint64_t data_hash;     // of the images to learn from and their labels
  double loss_scale;
  double epoch_loss;  // sum over the images of this epoch so far
} Trainer;

void trainer_begin(Trainer* trainer, const Options* options, const Digits* digits);
int trainer_steps(const Trainer* trainer);  // of the whole training

// Share of the learning rate in the next step: a line up over the warm-up, then half a cosine down to 0.
double trainer_share(const Trainer* trainer);

// State of the random generator for an epoch, the first one being 1; 0: for the first weights. It follows from the seed
// and the number alone, so that there is nothing to save of it.
uint64_t trainer_random(const Trainer* trainer, int epoch);

// What becomes of the loss scale when a step was made, and when it was rejected. Both count the batch.
void trainer_made(Trainer* trainer);
void trainer_rejected(Trainer* trainer);

#endif
