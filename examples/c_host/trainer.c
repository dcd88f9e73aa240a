// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "trainer.h"

#include <math.h>
#include <string.h>

#include "hash.h"

// After this number of consecutive successful steps, trainer_made() doubles the loss scale, so that small gradients do
// not underflow in binary16.
enum { kGoodSteps = 20 };

void trainer_begin(Trainer* trainer, const Options* options, const Digits* digits) {
  memset(trainer, 0, sizeof *trainer);
  trainer->seed = options->seed;
  trainer->batch = options->batch;
  trainer->epochs = options->epochs;
  trainer->warmup = options->warmup;
  trainer->train_count = digits->train_count;
  trainer->steps_per_epoch = trainer->train_count / options->batch;  // an incomplete last batch is left out
  trainer->loss_scale = options->loss_scale;
  const size_t count = (size_t)digits->train_count;
  trainer->data_hash = hash_bytes(HASH_START, digits->images, count * kDigitPixels * sizeof *digits->images);
  trainer->data_hash = hash_bytes(trainer->data_hash, digits->labels, count * sizeof *digits->labels);
}

int trainer_steps(const Trainer* trainer) { return trainer->epochs * trainer->steps_per_epoch; }

double trainer_share(const Trainer* trainer) {
  const int step = trainer->step, warmup = trainer->warmup, steps = trainer_steps(trainer);
  if (step < warmup) return (step + 1.0) / warmup;
  return step < steps ? 0.5 * (1 + cos(3.14159265358979323846 * (step - warmup) / (steps - warmup))) : 0;
}

uint64_t trainer_random(const Trainer* trainer, int epoch) { return (uint64_t)trainer->seed << 32 | (uint64_t)epoch; }

void trainer_made(Trainer* trainer) {
  trainer->rejected_in_a_row = 0;
  if (++trainer->good_in_a_row == kGoodSteps) {
    trainer->loss_scale = fmin(2 * trainer->loss_scale, 0x1p30);
    trainer->good_in_a_row = 0;
  }
  trainer->step += 1;
}

void trainer_rejected(Trainer* trainer) {
  trainer->rejected += 1;
  trainer->rejected_in_a_row += 1;
  trainer->good_in_a_row = 0;
  trainer->loss_scale = fmax(1, trainer->loss_scale / 2);
  trainer->step += 1;
}
