// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares the gradient that network.c computes for each tensor with central differences of the loss, in float64.
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "digits.h"
#include "network.h"
#include "random.h"

const char program_name[] = "check_gradients";

// The distance h in a central difference (loss(w + h) - loss(w - h)) / (2 h). The error of this difference is about h^2
// from truncation plus 1e-16 / h from rounding. It is larger if the input of a relu changes its sign between w - h and
// w + h, which is rare because h is so small.
static const double kStep = 1e-6;
static const double kTolerance = 1e-6;  // relative to the largest entry of the tensor's gradient
enum { kImages = 12, kMaxEntries = 400 };

static double loss_with(Network* net, const Digits* digits, int value, double shift) {
  int correct;
  const real kept = net->params[value];
  net->params[value] = kept + shift;
  const double loss = network_evaluate(net, kImages, digits->images, digits->labels, &correct);
  net->params[value] = kept;
  return loss;
}

// Checks evenly spaced entries of the tensor's gradient. Returns the largest error divided by the largest entry of this
// gradient. *entries receives the number of checked entries.
static double error_of(Network* net, const Digits* digits, const NetworkTensor* tensor, int* entries) {
  const int size = network_tensor_size(tensor);
  const int stride = (size + kMaxEntries - 1) / kMaxEntries;
  double largest = 0, error = 0;
  for (int i = 0; i < size; ++i) largest = fmax(largest, fabs(net->grads[tensor->offset + i]));
  *entries = 0;
  for (int i = 0; i < size; i += stride, ++*entries) {
    const int value = tensor->offset + i;
    const double up = loss_with(net, digits, value, kStep), down = loss_with(net, digits, value, -kStep);
    error = fmax(error, fabs((up - down) / (2 * kStep) - net->grads[value]));
  }
  return largest > 0 ? error / largest : INFINITY;  // a gradient of zeros counts as wrong
}

int main(int argc, char** argv) {
  Digits digits;
  Network net;
  uint64_t random_state = 1;
  int failures = 0;

  openblas_set_num_threads(1);
  digits_load(&digits, argc > 1 ? argv[1] : "../c_mlp/data/digits.bin");
  // The buffers have room for one more image than the check uses. The check therefore fails if the network confuses the
  // size of its buffers with the number of images.
  network_create(&net, kImages + 1);
  network_init(&net, &random_state);
  // With biases of 0, the input of relu would be exactly 0 at empty pixels, and relu has no derivative at 0.
  for (int t = 0; t < kTensors; ++t) {
    const NetworkTensor* tensor = &network_tensors[t];
    if (tensor->ndim != 1) continue;
    for (int i = 0; i < tensor->shape[0]; ++i) net.params[tensor->offset + i] = random_uniform(&random_state) - 0.5;
  }

  const double loss = network_gradient(&net, kImages, digits.images, digits.labels);
  printf("loss %.6f of %d images; differences with a step of %g, in float64\n", loss, kImages, kStep);
  for (int t = 0; t < kTensors; ++t) {
    int entries;
    const double error = error_of(&net, &digits, &network_tensors[t], &entries);
    const int good = error <= kTolerance;
    printf("%-14s %3d entries: largest error / largest entry = %.1e%s\n", network_tensors[t].name, entries, error,
           good ? "" : "  WRONG");
    failures += !good;
  }
  network_free(&net);
  digits_free(&digits);
  if (failures > 0) fail("the gradient is wrong in %d of %d tensors", failures, kTensors);
  return 0;
}
