// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the convolutional network of examples/c_conv on handwritten digits and prints the result as JSON.
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clock.h"
#include "command_line.h"
#include "digits.h"
#include "json.h"
#include "network.h"
#include "optimizer.h"
#include "random.h"

const char program_name[] = "train_convolution";

static const char kAbout[] =
    "Trains a convolutional network on handwritten digits with one method. Prints losses as JSON.\n";

typedef struct {
  int epochs, batch, seed, threads;
  const char* data;
  MethodList methods;
} Options;

typedef struct {
  int steps, diverged;
  double gradient_seconds, update_seconds;
} Result;

static void parse(Options* options, int argc, char** argv) {
  *options = (Options){.epochs = 40, .batch = 50, .seed = 1, .threads = 1, .data = ""};
  const Option table[] = {
      option_call("--optimizer", "OPTIONS", method_list_add, &options->methods,
                  "the method, such as \"preset=soap lr=0.003\""),
      option_call("--rest", "OPTIONS", method_list_set_rest, &options->methods,
                  "the method of the output layer and of vectors; default: the preceding --optimizer"),
      option_text("--data", "FILE", &options->data, "the images, in the format of examples/c_mlp/data"),
      option_integer("--epochs", &options->epochs, 1, INT_MAX, "passes over the training images"),
      option_integer("--batch", &options->batch, 1, INT_MAX, "images per step"),
      option_integer("--seed", &options->seed, 0, INT_MAX, "seed of the initial weights and of the order of images"),
      option_integer("--threads", &options->threads, 1, 1024, "threads that compute the update"),
      {0}};
  command_line_parse(argc, argv, kAbout, table, NULL);
  if (options->methods.count != 1) fail("--optimizer is passed %d times; expected once", options->methods.count);
}

static void create(Optimizer* optimizer, const Network* net, const Options* options) {
  BoundTensor tensors[kTensors];
  for (int t = 0; t < kTensors; ++t) {
    const NetworkTensor* tensor = &network_tensors[t];
    tensors[t] = (BoundTensor){.name = tensor->name,
                               .is_rest = strcmp(tensor->name, "linear.weight") == 0,
                               .ndim = tensor->ndim,
                               .param = net->params + tensor->offset,
                               .grad = net->grads + tensor->offset};
    memcpy(tensors[t].shape, tensor->shape, sizeof tensor->shape);
  }
  optimizer_create(optimizer, &options->methods.methods[0], kTensors, tensors, NULL, options->threads);
}

static Result train(const Options* options, const Digits* digits, uint64_t* random_state, Network* net,
                    Optimizer* optimizer) {
  const int steps_per_epoch = digits->train_count / options->batch, steps = options->epochs * steps_per_epoch;
  int* rows = allocate((size_t)digits->train_count, sizeof(int));
  real* x = allocate((size_t)options->batch * kPixels, sizeof(real));
  int* labels = allocate((size_t)options->batch, sizeof(int));
  Result result = {0};
  for (int i = 0; i < digits->train_count; ++i) rows[i] = i;
  while (!result.diverged && result.steps < steps) {
    const int place = result.steps % steps_per_epoch;
    if (place == 0) random_shuffle(random_state, digits->train_count, rows);
    for (int r = 0; r < options->batch; ++r) {
      const int row = rows[place * options->batch + r];
      memcpy(x + (size_t)r * kPixels, digits->images + (size_t)row * kPixels, kPixels * sizeof(real));
      labels[r] = digits->labels[row];
    }
    const double start = seconds();
    const double loss = network_gradient(net, options->batch, x, labels);
    const double middle = seconds();
    result.diverged = !isfinite(loss) || !optimizer_step(optimizer, schedule_share(result.steps, steps, 0));
    result.gradient_seconds += middle - start;
    result.update_seconds += seconds() - middle;
    result.steps += !result.diverged;
  }
  free(labels);
  free(x);
  free(rows);
  return result;
}

static void print_result(const Result* result, const Digits* digits, Network* net, const Optimizer* optimizer) {
  int correct = 0;
  const double training_loss = network_evaluate(net, digits->train_count, digits->images, digits->labels, &correct);
  const double loss = network_evaluate(net, digits->test_count, digits->images + (size_t)digits->train_count * kPixels,
                                       digits->labels + digits->train_count, &correct);
  const double made = result->steps > 0 ? result->steps : 1;
  printf("{\"diverged\": %s, \"steps\": %d, \"parameters\": %d, \"state_bytes\": %lld, \"training_loss\": ",
         result->diverged ? "true" : "false", result->steps, kValues, (long long)optimizer->state_bytes);
  json_number(result->diverged ? NAN : training_loss);
  printf(", \"validation_loss\": ");
  json_number(result->diverged ? NAN : loss);
  printf(", \"accuracy\": ");
  json_number(result->diverged ? NAN : (double)correct / digits->test_count);
  printf(", \"gradient_ms\": ");
  json_number(1e3 * result->gradient_seconds / made);
  printf(", \"update_ms\": ");
  json_number(1e3 * result->update_seconds / made);
  printf("}\n");
}

int main(int argc, char** argv) {
  static Options options;
  Digits digits;
  Network net;
  Optimizer optimizer;

  parse(&options, argc, argv);
  openblas_set_num_threads(1);  // the matrices are too small for several threads
  digits_load(&digits, options.data);
  if (options.batch > digits.train_count) {
    fail("--batch is %d: expected at most %d, the number of training images", options.batch, digits.train_count);
  }
  uint64_t random_state = (uint64_t)options.seed;
  network_create(&net, options.batch);
  network_init(&net, &random_state);
  create(&optimizer, &net, &options);
  const Result result = train(&options, &digits, &random_state, &net, &optimizer);
  print_result(&result, &digits, &net, &optimizer);

  optimizer_free(&optimizer);
  network_free(&net);
  digits_free(&digits);
  return 0;
}
