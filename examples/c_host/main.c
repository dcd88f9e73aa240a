// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A complete trainer: a network that uses the program's own BLAS, 16-bit gradients with a loss scale, a learning-rate
// schedule, and checkpoints from which an interrupted run continues with bit-identical results.
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

// Stores the signal for main(), which checks stop_signal before each step. Also restores the default action of each
// signal that has this handler, so that a second signal ends the program at once.
static void remember_signal(int number) {
  if (stop_signal == 0) stop_signal = number;
  for (int i = 0; i < kSignalCount; ++i) {
    struct sigaction now;
    if (sigaction(kSignals[i], NULL, &now) == 0 && now.sa_handler == remember_signal) signal(kSignals[i], SIG_DFL);
  }
}

// Installs remember_signal(), except for signals that are ignored when the program starts. For example, scripts start
// background jobs with SIGINT ignored.
static void catch_signals(void) {
  struct sigaction action, before;
  memset(&action, 0, sizeof action);
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART;  // restarts interrupted writes
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

// Copies the images and labels of the next batch. Computes the order of the images again for every batch, from the seed
// and the epoch, so that checkpoints need not contain the order.
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

// Handles a rejected step, which has changed nothing. If a gradient is not finite, reduces the loss scale and returns,
// so that training continues with the next batch. Exits with an error after --give-up rejections in a row. Also exits
// if all gradients are finite, because another loss scale would not help.
static void handle_rejection(Trainer* trainer, const Network* net, const Options* options) {
  if (network_gradients_finite(net)) {
    fail("batch %d was rejected although its gradients are finite; the last checkpoint is of step %d. The error:\n%s",
         trainer->step + 1, checkpoint_last(options->checkpoints), shampoo_last_error());
  }
  const double scale = trainer->loss_scale;
  trainer_rejected(trainer);
  report_rejected(trainer, scale);
  if (trainer->rejected_in_a_row < options->give_up) return;
  fail("%d batches in a row were rejected; the last checkpoint is of step %d. The error of batch %d:\n%s",
       trainer->rejected_in_a_row, checkpoint_last(options->checkpoints), trainer->step, shampoo_last_error());
}

int main(int argc, char** argv) {
  Options options;
  Digits digits;
  Trainer trainer;
  Network net;
  WithShampoo shampoo;

  // 1. Options and data. openblas_set_num_threads() affects the BLAS of this program, not the BLAS inside libshampoo.
  options_parse(&options, argc, argv);
  digits_load(&digits, options.data);
  if (options.batch > digits.train_count) fail("--batch %d: there are %d images", options.batch, digits.train_count);
  openblas_set_num_threads(options.blas_threads);
  with_shampoo_log(options.log);
  catch_signals();

  // 2. Start a new run, or continue one.
  trainer_begin(&trainer, &options, &digits);
  uint64_t random_state = trainer_random(&trainer, 0);
  network_create(&net, options.batch, &random_state);
  with_shampoo_create(&shampoo, &net, &options.settings);
  report_head(&trainer, &digits, &shampoo);
  int saved = checkpoint_last(options.checkpoints);
  if (saved >= 0 && !options.resume) {
    fail("%s has a checkpoint of step %d; use --resume to continue from it, or another folder with --checkpoints",
         options.checkpoints, saved);
  }
  if (saved >= 0) {
    checkpoint_load(options.checkpoints, saved, &trainer, &net, &shampoo);
    printf("continues from step %d\n", saved);
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
    // The first checkpoint is saved before the first step, so that the run fails early if the folder is not writable.
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
      handle_rejection(&trainer, &net, &options);
    }
    if (trainer.step % trainer.steps_per_epoch == 0) {
      report_epoch(&trainer, test_accuracy(&net, &digits));
      trainer.epoch_loss = 0;
    }
  }
  clear_progress();

  // 4. Results.
  if (trainer.step == steps) {
    report_end(&trainer, &net, &shampoo, gradient_seconds, update_seconds);
  } else {
    printf("signal %d: saved after %d of %d batches; --resume continues\n", (int)stop_signal, trainer.step, steps);
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
