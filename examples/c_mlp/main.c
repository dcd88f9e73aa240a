// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the network of mlp.h on handwritten digits with Shampoo and with AdamW, side by side from the same weights and
// on the same batches, so that only the optimizer differs.
#define _POSIX_C_SOURCE 200809L  // clock_gettime
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adamw.h"
#include "check.h"
#include "digits.h"
#include "mlp.h"
#include "options.h"
#include "progress.h"
#include "random.h"
#include "report.h"
#include "with_shampoo.h"

const char program_name[] = "train_digits";

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Returns an array with the numbers of a file. Each number has `size` bytes, in the machine's own byte order. *count
// receives how many numbers the array has. The caller frees the array.
static void* read_numbers(const char* path, size_t size, size_t* count) {
  size_t capacity = 1 << 16, used = 0, got;
  char* bytes = allocate(capacity, 1);
  FILE* file = open_file(path, "rb");
  while ((got = fread(bytes + used, 1, capacity - used, file)) > 0) {
    used += got;
    if (used < capacity) continue;
    bytes = realloc(bytes, capacity *= 2);
    if (bytes == NULL) fail("%s: out of memory at %zu bytes", path, capacity);
  }
  close_file(file, path);
  if (used % size != 0) fail("%s has %zu bytes, which is not a multiple of %zu", path, used, size);
  *count = used / size;
  return bytes;
}

// Exits with an error if a file cannot be written. main() calls this function before the training, so that a run does
// not fail at its end.
static void check_writable(const char* path) {
  if (path[0] != '\0') close_file(open_file(path, "a"), path);
}

static void read_init(const char* path, real* params) {
  size_t count;
  double* values = read_numbers(path, sizeof(double), &count);
  if (count != kValues) fail("%s has %zu numbers: expected %d, one for each parameter", path, count, kValues);
  for (int i = 0; i < kValues; ++i) params[i] = (real)values[i];
  free(values);
}

static int32_t* read_batches(const char* path, int batch, int train_count, int* steps) {
  size_t count;
  int32_t* rows = read_numbers(path, sizeof(int32_t), &count);
  if (count == 0 || count % (size_t)batch != 0)
    fail("%s has %zu image indices: expected a multiple of --batch %d", path, count, batch);
  for (size_t i = 0; i < count; ++i) {
    if (rows[i] < 0 || rows[i] >= train_count)
      fail("%s has the image index %d: there are %d training images", path, (int)rows[i], train_count);
  }
  *steps = (int)(count / (size_t)batch);
  return rows;
}

static void gather(const Digits* digits, const int32_t* rows, int count, real* x, int* labels) {
  for (int r = 0; r < count; ++r) {
    memcpy(x + (size_t)r * kInputs, digits->images + (size_t)rows[r] * kInputs, kInputs * sizeof(real));
    labels[r] = digits->labels[rows[r]];
  }
}

static void evaluate(Mlp* net, const Digits* digits, Curve* curve, int epoch) {
  int correct;
  curve->loss[epoch] = mlp_evaluate(net, digits->train_count, digits->images, digits->labels, &correct);
  mlp_evaluate(net, digits->test_count, digits->images + (size_t)digits->train_count * kInputs,
               digits->labels + digits->train_count, &correct);
  curve->accuracy[epoch] = (double)correct / digits->test_count;
}

int main(int argc, char** argv) {
  Options options;
  Digits digits;
  Mlp nets[kContenders];
  Curve curves[kContenders] = {{0}};
  WithShampoo shampoo;
  AdamW adamw;
  uint64_t random_state;

  options_parse(&options, argc, argv);
  digits_load(&digits, options.data);
  if (options.batch > digits.train_count) fail("--batch %d: there are %d images", options.batch, digits.train_count);
  check_writable(options.csv);
  random_state = (uint64_t)options.seed;

  // `rows` has indices of images. Step s of an epoch uses rows[s * batch] to rows[(s + 1) * batch - 1]. An incomplete
  // last batch of an epoch is left out.
  int epochs = options.epochs, steps_per_epoch = digits.train_count / options.batch;
  int32_t* rows;
  if (options.batches != NULL) {
    rows = read_batches(options.batches, options.batch, digits.train_count, &steps_per_epoch);
    epochs = 1;
  } else {
    rows = allocate((size_t)digits.train_count, sizeof(int32_t));
    for (int i = 0; i < digits.train_count; ++i) rows[i] = i;
  }
  const int steps = epochs * steps_per_epoch;

  for (int c = 0; c < kContenders; ++c) {
    mlp_create(&nets[c], options.batch);
    curves[c].loss = allocate((size_t)epochs + 1, sizeof(double));
    curves[c].accuracy = allocate((size_t)epochs + 1, sizeof(double));
  }
  if (options.init != NULL) {
    read_init(options.init, nets[0].params);
  } else {
    mlp_init(&nets[0], &random_state);
  }
  memcpy(nets[1].params, nets[0].params, kValues * sizeof(real));
  with_shampoo_create(&shampoo, &nets[kShampoo], &options.settings);
  adamw_create(&adamw, kValues, options.adamw_lr, options.weight_decay);

  const int bits = 8 * (int)sizeof(real), version = (int)shampoo_version();
  printf("libshampoo %d.%d.%d, float%d\n", version / 10000, version / 100 % 100, version % 100, bits);
  printf("digits      %d training images, %d test images\n", digits.train_count, digits.test_count);
  printf("network     64-128-64-10, tanh, %d parameters\n", kValues);
  printf("steps       %d epochs of %d steps with %d images each\n", epochs, steps_per_epoch, options.batch);
  printf("state       Shampoo %.0f KiB, AdamW %.0f KiB\n", (double)shampoo.state_bytes / 1024,
         2.0 * kValues * sizeof(real) / 1024);

  real* x = allocate((size_t)options.batch * kInputs, sizeof(real));
  int* labels = allocate((size_t)options.batch, sizeof(int));
  FILE* losses = options.step_losses != NULL ? open_file(options.step_losses, "w") : NULL;
  if (losses != NULL) fprintf(losses, "step,shampoo,adamw\n");
  report_head();
  for (int c = 0; c < kContenders; ++c) evaluate(&nets[c], &digits, &curves[c], 0);
  report_epoch(0, curves);

  for (int epoch = 1, step = 0; epoch <= epochs; ++epoch) {
    if (options.batches == NULL) random_shuffle(&random_state, digits.train_count, rows);
    for (int s = 0; s < steps_per_epoch; ++s, ++step) {
      double loss[kContenders];
      show_progress(step, steps);
      gather(&digits, rows + (size_t)s * (size_t)options.batch, options.batch, x, labels);
      if (options.cosine) {
        const double share = 0.5 * (1 + cos(3.14159265358979323846 * step / steps));
        with_shampoo_set_lr(&shampoo, share * shampoo.lr);
        adamw.lr = share * options.adamw_lr;
      }
      for (int c = 0; c < kContenders; ++c) {
        const double start = seconds();
        loss[c] = mlp_gradient(&nets[c], options.batch, x, labels);
        const double middle = seconds();
        if (c == kShampoo) {
          with_shampoo_step(&shampoo);
        } else {
          adamw_step(&adamw, nets[c].params, nets[c].grads);
        }
        curves[c].gradient_seconds += middle - start;
        curves[c].update_seconds += seconds() - middle;
      }
      if (losses != NULL) fprintf(losses, "%d,%.17g,%.17g\n", step + 1, loss[kShampoo], loss[kAdamW]);
    }
    for (int c = 0; c < kContenders; ++c) evaluate(&nets[c], &digits, &curves[c], epoch);
    report_epoch(epoch, curves);
  }

  report_times(steps, curves);
  printf("Shampoo computed %.0f inverse roots\n", with_shampoo_roots(&shampoo));
  if (losses != NULL) close_file(losses, options.step_losses);
  if (options.csv[0] != '\0') report_csv(options.csv, epochs, curves);

  free(labels);
  free(x);
  adamw_free(&adamw);
  with_shampoo_free(&shampoo);
  for (int c = 0; c < kContenders; ++c) {
    free(curves[c].accuracy);
    free(curves[c].loss);
    mlp_free(&nets[c]);
  }
  free(rows);
  digits_free(&digits);
  settings_free(&options.settings);
  return 0;
}
