// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "checkpoint.h"
#include "digits.h"
#include "mlp.h"
#include "random.h"
#include "report.h"
#include "shards.h"
#include "with_shampoo.h"

// Writes the gradient of this rank's part of a batch to net->grads. The gradient is weighted such that the sum over all
// ranks is the gradient of the mean loss of the batch. rows: indices of the images of the batch. x and labels are
// scratch memory.
static void gradient_of_part(Mlp* net, const Ranks* ranks, const Digits* digits, const int* rows, int batch, real* x,
                             int* labels) {
  const int first = (int)((long long)batch * ranks->rank / ranks->world);
  const int count = (int)((long long)batch * (ranks->rank + 1) / ranks->world) - first;
  for (int r = 0; r < count; ++r) {
    const int row = rows[first + r];
    memcpy(x + (size_t)r * kInputs, digits->images + (size_t)row * kInputs, kInputs * sizeof(real));
    labels[r] = digits->labels[row];
  }
  mlp_gradient(net, count, x, labels);
  const real weight = (real)count / (real)batch;
  for (int i = 0; i < kValues; ++i) net->grads[i] *= weight;
}

static void evaluate(Mlp* net, const Digits* digits, int epoch) {
  int correct;
  const double loss = mlp_evaluate(net, digits->train_count, digits->images, digits->labels, &correct);
  mlp_evaluate(net, digits->test_count, digits->images + (size_t)digits->train_count * kInputs,
               digits->labels + digits->train_count, &correct);
  report_epoch(epoch, loss, (double)correct / digits->test_count);
}

int train(const Options* options, const Ranks* ranks) {
  Digits digits;
  Mlp net;
  Shards shards;
  WithShampoo shampoo;
  uint64_t random_state = (uint64_t)options->seed;

  digits_load(&digits, options->data);
  if (options->batch > digits.train_count) fail("--batch %d: there are %d images", options->batch, digits.train_count);
  if (options->batch < ranks->world) fail("--batch %d: there are %d ranks", options->batch, ranks->world);
  const int steps_per_epoch = digits.train_count / options->batch, steps = options->epochs * steps_per_epoch;

  mlp_create(&net, options->batch);
  mlp_init(&net, &random_state);
  shards_create(&shards, ranks);
  shards_take_params(&shards, ranks, &net);
  with_shampoo_create(&shampoo, ranks, &net, options->shards ? &shards : NULL, &options->settings);
  int done = 0;  // number of epochs that were completed before the checkpoint
  if (options->resume) {
    done = checkpoint_load(options->checkpoint, &shampoo, &net, steps_per_epoch);
    shards_take_params(&shards, ranks, &net);
  }

  int* rows = allocate((size_t)digits.train_count, sizeof(int));
  real* x = allocate((size_t)options->batch * kInputs, sizeof(real));
  int* labels = allocate((size_t)options->batch, sizeof(int));
  for (int i = 0; i < digits.train_count; ++i) rows[i] = i;
  if (ranks->rank == 0) {
    report_head(options, ranks, &shampoo, &digits, steps_per_epoch);
    evaluate(&net, &digits, done);
  }

  // Repeats the shuffles of the completed epochs, so that the later epochs have the order of an uninterrupted run.
  for (int epoch = 1; epoch <= done; ++epoch) random_shuffle(&random_state, digits.train_count, rows);
  const int last =
      options->stop_after > 0 && options->stop_after < options->epochs ? options->stop_after : options->epochs;
  for (int epoch = done + 1, step = done * steps_per_epoch; epoch <= last; ++epoch) {
    // All ranks draw the same order of the images from the same seed, so they need not exchange the order.
    random_shuffle(&random_state, digits.train_count, rows);
    for (int s = 0; s < steps_per_epoch; ++s, ++step) {
      with_shampoo_set_lr(&shampoo, shampoo.lr * 0.5 * (1 + cos(3.14159265358979323846 * step / steps)));
      gradient_of_part(&net, ranks, &digits, rows + (size_t)s * (size_t)options->batch, options->batch, x, labels);
      // If each rank holds a chunk of every parameter (options->shards), a reduce-scatter would send less, but would
      // round differently. This sum is used for every value of options->shards, so that the results of runs with
      // different values can be compared bit by bit.
      ranks_sum(ranks, net.grads, kValues);
      if (options->shards) shards_take_grads(&shards, ranks, &net);
      with_shampoo_step(&shampoo);
      if (options->shards) shards_gather(&shards, ranks, &net);  // for the next forward pass
    }
    if (ranks->rank == 0) evaluate(&net, &digits, epoch);
    if (options->checkpoint != NULL) checkpoint_save(options->checkpoint, ranks, &shampoo, &net, epoch);
  }
  const int same = report_ranks(ranks, &shampoo, &net);

  free(labels);
  free(x);
  free(rows);
  with_shampoo_free(&shampoo);
  shards_free(&shards);
  mlp_free(&net);
  digits_free(&digits);
  return same;
}
