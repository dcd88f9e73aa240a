// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the network of network.h on handwritten digits with one of three optimizers.
#define _POSIX_C_SOURCE 200809L  // clock_gettime
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adamw.h"
#include "check.h"
#include "digits.h"
#include "network.h"
#include "options.h"
#include "progress.h"
#include "random.h"
#include "report.h"
#include "sgd.h"
#include "with_shampoo.h"

const char program_name[] = "train_conv";

// An optimizer. `method` selects which of the last three members is used.
typedef struct {
  int method;
  double lr;  // largest learning rate; the schedule reduces it
  WithShampoo shampoo;
  Sgd sgd;
  AdamW adamw;
} Optimizer;

static void optimizer_create(Optimizer* optimizer, const Network* net, const Options* options) {
  double state_bytes = kValues * sizeof(real);
  optimizer->method = options->method;
  optimizer->lr = options->lr;
  if (options->method == kShampoo) {
    with_shampoo_create(&optimizer->shampoo, net, options);
    optimizer->lr = optimizer->shampoo.lr;  // --set lr=... takes precedence over --lr
    state_bytes = (double)optimizer->shampoo.state_bytes;
  } else if (options->method == kSgd) {
    sgd_create(&optimizer->sgd, kValues, options->lr, options->weight_decay);
  } else {
    adamw_create(&optimizer->adamw, kValues, options->lr, options->weight_decay);
    state_bytes *= 2;
  }
  printf("optimizer   %s, learning rate %g, %s; state %.0f KiB\n", method_names[options->method], optimizer->lr,
         options->cosine ? "falling along a cosine" : "constant", state_bytes / 1024);
}

static void optimizer_free(Optimizer* optimizer) {
  if (optimizer->method == kShampoo) with_shampoo_free(&optimizer->shampoo);
  if (optimizer->method == kSgd) sgd_free(&optimizer->sgd);
  if (optimizer->method == kAdamW) adamw_free(&optimizer->adamw);
}

// Makes one step with the learning rate share * optimizer->lr. Returns 0 if Shampoo finds that the training has
// diverged, otherwise 1. With SGD and AdamW, only train() finds this, from the loss.
static int optimizer_step(Optimizer* optimizer, Network* net, double share) {
  const double lr = share * optimizer->lr;
  if (optimizer->method == kShampoo) {
    with_shampoo_set_lr(&optimizer->shampoo, lr);
    return with_shampoo_step(&optimizer->shampoo);
  }
  if (optimizer->method == kSgd) {
    optimizer->sgd.lr = lr;
    sgd_step(&optimizer->sgd, net->params, net->grads);
  } else {
    optimizer->adamw.lr = lr;
    adamw_step(&optimizer->adamw, net->params, net->grads);
  }
  return 1;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void gather(const Digits* digits, const int* rows, int count, real* x, int* labels) {
  for (int r = 0; r < count; ++r) {
    memcpy(x + (size_t)r * kPixels, digits->images + (size_t)rows[r] * kPixels, kPixels * sizeof(real));
    labels[r] = digits->labels[rows[r]];
  }
}

static void evaluate(Network* net, const Digits* digits, Evaluation* evaluation) {
  int correct;
  evaluation->loss = network_evaluate(net, digits->train_count, digits->images, digits->labels, &correct);
  network_evaluate(net, digits->test_count, digits->images + (size_t)digits->train_count * kPixels,
                   digits->labels + digits->train_count, &correct);
  evaluation->accuracy = (double)correct / digits->test_count;
}

// Trains for all epochs. Returns 0 if the training has diverged, otherwise 1.
static int train(const Options* options, const Digits* digits, uint64_t* random_state, Network* net,
                 Optimizer* optimizer, Report* report) {
  // An incomplete last batch of an epoch is left out.
  const int steps_per_epoch = digits->train_count / options->batch, steps = options->epochs * steps_per_epoch;
  const int evaluate_every = options->evaluate_every > 0 ? options->evaluate_every : steps_per_epoch;
  int* rows = allocate((size_t)digits->train_count, sizeof(int));
  real* x = allocate((size_t)options->batch * kPixels, sizeof(real));
  int* labels = allocate((size_t)options->batch, sizeof(int));
  Evaluation evaluation = {0};
  for (int i = 0; i < digits->train_count; ++i) rows[i] = i;

  evaluate(net, digits, &evaluation);
  report_evaluation(report, &evaluation);
  int finite = 1;
  while (finite && evaluation.step < steps) {
    const int place = evaluation.step % steps_per_epoch;
    if (place == 0) random_shuffle(random_state, digits->train_count, rows);
    show_progress(evaluation.step, steps);
    gather(digits, rows + (size_t)place * (size_t)options->batch, options->batch, x, labels);
    const double share = options->cosine ? 0.5 * (1 + cos(3.14159265358979323846 * evaluation.step / steps)) : 1;
    const double start = seconds();
    network_gradient(net, options->batch, x, labels);
    const double middle = seconds();
    finite = optimizer_step(optimizer, net, share);
    evaluation.gradient_seconds += middle - start;
    evaluation.update_seconds += seconds() - middle;
    evaluation.step += finite;
    if (finite && evaluation.step % evaluate_every != 0 && evaluation.step < steps) continue;
    evaluate(net, digits, &evaluation);
    finite = finite && isfinite(evaluation.loss);
    report_evaluation(report, &evaluation);
  }
  free(labels);
  free(x);
  free(rows);
  return finite;
}

int main(int argc, char** argv) {
  Options options;
  Digits digits;
  Network net;
  Optimizer optimizer;
  Report report;

  options_parse(&options, argc, argv);
  openblas_set_num_threads(1);  // the matrices are too small for several threads
  digits_load(&digits, options.data);
  if (options.batch > digits.train_count) fail("--batch %d: there are %d images", options.batch, digits.train_count);
  uint64_t random_state = (uint64_t)options.seed;
  network_create(&net, options.batch);
  network_init(&net, &random_state);

  const int version = (int)shampoo_version();
  printf("libshampoo %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  printf("digits      %d training images, %d test images\n", digits.train_count, digits.test_count);
  printf("network     3 convolutions and a linear layer, %d parameters\n", kValues);
  printf("steps       %d epochs of %d steps with %d images each\n", options.epochs, digits.train_count / options.batch,
         options.batch);
  optimizer_create(&optimizer, &net, &options);
  report_begin(&report, options.csv, options.target_loss);
  const int finite = train(&options, &digits, &random_state, &net, &optimizer, &report);
  report_end(&report);
  if (optimizer.method == kShampoo)
    printf("Shampoo computed %.0f inverse roots\n", with_shampoo_roots(&optimizer.shampoo));
  if (!finite) printf("diverged: try a smaller learning rate\n");

  optimizer_free(&optimizer);
  settings_free(&options.settings);
  network_free(&net);
  digits_free(&digits);
  return finite ? 0 : 2;
}
