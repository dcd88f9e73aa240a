// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The story of a training: a network with a BLAS of its own, gradients of 16 bits that overflow now and then, a
// learning rate that changes, and checkpoints from which a run that was ended goes on with the same bits.
#define _POSIX_C_SOURCE 200809L  // clock_gettime, sigaction
#include <cblas.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "checkpoint.h"
#include "digits.h"
#include "network.h"
#include "options.h"
#include "progress.h"
#include "random.h"
#include "report.h"
#include "trainer.h"
#include "with_shampoo.h"

const char program_name[] = "train_host";

static const int kSignals[] = {SIGINT, SIGTERM};
enum { kSignalCount = sizeof kSignals / sizeof kSignals[0] };
static volatile sig_atomic_t stop_signal;

// The loop looks at stop_signal before each step. A second signal, of either kind, ends the program at once.
static void remember_signal(int number) {
  if (stop_signal == 0) stop_signal = number;
  for (int i = 0; i < kSignalCount; ++i) {
    struct sigaction now;
    if (sigaction(kSignals[i], NULL, &now) == 0 && now.sa_handler == remember_signal) signal(kSignals[i], SIG_DFL);
  }
}

// One that is ignored stays so: a shell without job control starts what runs in the background with SIGINT ignored.
static void catch_signals(void) {
  struct sigaction action, before;
  memset(&action, 0, sizeof action);
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART;  // files that are being written are not disturbed
  for (int i = 0; i < kSignalCount; ++i) sigaddset(&action.sa_mask, kSignals[i]);
  for (int i = 0; i < kSignalCount; ++i) {
    sigaction(kSignals[i], NULL, &before);
    if (before.sa_handler != SIG_IGN) sigaction(kSignals[i], &action, NULL);
  }
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// The order of the images is drawn anew for every batch, from the seed and the number of the epoch: there is nothing of
// it to save.
static void take_batch(const Trainer* trainer, const Digits* digits, int* rows, float* x, int* labels) {
  const int s = trainer->step % trainer->steps_per_epoch;
  uint64_t random_state = trainer_random(trainer, 1 + trainer->step / trainer->steps_per_epoch);
  for (int i = 0; i < digits->train_count; ++i) rows[i] = i;
  random_shuffle(&random_state, digits->train_count, rows);
  for (int r = 0; r < trainer->batch; ++r) {
    const int row = rows[s * trainer->batch + r];
    memcpy(x + r * kInputs, digits->images + row * kInputs, kInputs * sizeof *x);
    labels[r] = digits->labels[row];
  }
}

static double test_accuracy(Network* net, const Digits* digits) {
  return network_accuracy(net, digits->test_count, digits->images + digits->train_count * kInputs,
                          digits->labels + digits->train_count);
}

// The step was rejected, and nothing has changed. Where a gradient overflowed: a smaller loss scale, the next batch,
// and not for ever. What else the library refuses is not mended by another scale.
static void survive(Trainer* trainer, const Network* net, const Options* options) {
  if (network_gradients_finite(net)) {
    fail("batch %d was rejected, and its gradients are finite; the last checkpoint is of step %d. libshampoo says:\n%s",
         trainer->step + 1, checkpoint_last(options->checkpoints), shampoo_last_error());
  }
  const double scale = trainer->loss_scale;
  trainer_rejected(trainer);
  report_rejected(trainer, scale);
  if (trainer->rejected_in_a_row < options->give_up) return;
  fail("%d batches in a row were rejected, and the last checkpoint is of step %d. Of batch %d libshampoo says:\n%s",
       trainer->rejected_in_a_row, checkpoint_last(options->checkpoints), trainer->step, shampoo_last_error());
}

int main(int argc, char** argv) {
  Options options;
  Digits digits;
  Trainer trainer;
  Network net;
  WithShampoo shampoo;

  // 1. What is to be done. The host has a BLAS of its own, whose threads libshampoo knows nothing of.
  options_parse(&options, argc, argv);
  digits_load(&digits, options.data);
  if (options.batch > digits.train_count) fail("--batch %d: there are %d images", options.batch, digits.train_count);
  openblas_set_num_threads(options.blas_threads);
  with_shampoo_log(options.log);
  catch_signals();

  // 2. Begin, or go on.
  trainer_begin(&trainer, &options, &digits);
  uint64_t random_state = trainer_random(&trainer, 0);
  network_create(&net, options.batch, &random_state);
  with_shampoo_create(&shampoo, &net, &options.settings);
  report_head(&trainer, &digits, &shampoo);
  int saved = checkpoint_last(options.checkpoints);
  if (saved >= 0 && !options.resume) {
    fail("%s has a checkpoint of step %d: --resume goes on from it; or give another folder to --checkpoints",
         options.checkpoints, saved);
  }
  if (saved >= 0) {
    checkpoint_load(options.checkpoints, saved, &trainer, &net, &shampoo);
    printf("goes on from step %d\n", saved);
  }

  // 3. Train.
  float* x = allocate((size_t)(options.batch * kInputs), sizeof *x);
  int* labels = allocate((size_t)options.batch, sizeof *labels);
  int* rows = allocate((size_t)digits.train_count, sizeof *rows);
  double gradient_seconds = 0, update_seconds = 0;
  const int steps = trainer_steps(&trainer);
  for (;;) {
    const int ends = stop_signal != 0 || trainer.step == steps;
    with_shampoo_prepare(&shampoo, trainer_share(&trainer), trainer.loss_scale);
    // The first one comes before the first step: a folder that cannot be written to is noticed now.
    if (trainer.step != saved && (ends || trainer.step % options.checkpoint_every == 0)) {
      checkpoint_save(options.checkpoints, &trainer, &net, &shampoo);
      saved = trainer.step;
    }
    if (ends) break;

    int correct;
    show_progress(trainer.step, steps);
    take_batch(&trainer, &digits, rows, x, labels);
    const double start = seconds();
    trainer.epoch_loss += network_forward(&net, options.batch, x, labels, &correct);
    network_backward(&net, options.batch, x, labels, (float)trainer.loss_scale);
    if (options.broken_from > 0 && trainer.step + 1 >= options.broken_from) net.grads[kValues - 1] = kHalfNaN;
    const double middle = seconds();
    const int made = with_shampoo_step(&shampoo);
    gradient_seconds += middle - start;
    update_seconds += seconds() - middle;

    if (made) {
      trainer_made(&trainer);
    } else {
      survive(&trainer, &net, &options);
    }
    if (trainer.step % trainer.steps_per_epoch == 0) {
      report_epoch(&trainer, test_accuracy(&net, &digits));
      trainer.epoch_loss = 0;
    }
  }
  clear_progress();

  // 4. What came out.
  if (trainer.step == steps) {
    report_end(&trainer, &net, &shampoo, gradient_seconds, update_seconds);
  } else {
    printf("signal %d: saved after %d of %d batches; --resume goes on\n", (int)stop_signal, trainer.step, steps);
  }

  free(rows);
  free(labels);
  free(x);
  with_shampoo_free(&shampoo);
  network_free(&net);
  digits_free(&digits);
  settings_free(&options.settings);
  return trainer.step == steps ? 0 : 128 + (int)stop_signal;
}
