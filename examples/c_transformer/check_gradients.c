// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares the gradient of every parameter of a small model with central differences of the loss, in float64. Exits
// with status 1 if a gradient is wrong.
#include <stdio.h>
#include <stdlib.h>

#include "batch.h"
#include "check.h"
#include "random.h"

const char program_name[] = "check_gradients";

enum { kVocab = 7, kContext = 6, kWidth = 12, kHeads = 3, kLayers = 2, kTexts = 7, kAtOnce = 2, kThreads = 2 };

int main(void) {
  const double difference = 1e-5, allowed = 1e-5;
  uint64_t random_state = 1;
  static uint8_t text[kTexts * kContext + 1];
  const uint8_t* texts[kTexts];
  Model model;
  Batch batch;
  int failures = 0;

  multiply_on_calling_threads(kThreads);
  Pool* pool = pool_create(kThreads);
  model_create(&model, kVocab, kContext, kWidth, kHeads, kLayers);
  batch_create(&batch, &model, pool, kAtOnce);
  real* params = allocate(model.values, sizeof(real));
  real* grads = allocate(model.values, sizeof(real));
  // Adds random numbers to the initial parameters, so that no gain is 1, no bias is 0 and no gradient is nearly 0.
  model_init(&model, params, &random_state);
  for (size_t i = 0; i < model.values; ++i) params[i] += (real)(random_uniform(&random_state) - 0.5);
  for (int i = 0; i < kTexts * kContext + 1; ++i) text[i] = (uint8_t)random_below(&random_state, kVocab);
  for (int i = 0; i < kTexts; ++i) texts[i] = text + i * kContext;

  batch_loss(&batch, params, kTexts, texts, grads);
  printf("relative error   parameter\n");
  for (int t = 0; t < model.tensor_count; ++t) {
    const Tensor* tensor = &model.tensors[t];
    double error = 0, size = 0;
    for (size_t i = tensor->offset; i < tensor->offset + tensor->count; ++i) {
      const real value = params[i];
      params[i] = (real)((double)value + difference);
      const double above = batch_loss(&batch, params, kTexts, texts, NULL);
      params[i] = (real)((double)value - difference);
      const double below = batch_loss(&batch, params, kTexts, texts, NULL);
      params[i] = value;
      const double expected = (above - below) / (2 * difference);
      error += ((double)grads[i] - expected) * ((double)grads[i] - expected);
      size += expected * expected;
    }
    const double relative = sqrt(error / size);
    const int passed = relative < allowed;  // false for NaN
    failures += !passed;
    printf("%14.1e   %s%s\n", relative, tensor->name, passed ? "" : "  FAIL");
  }
  printf("%d of %d pass: the relative error is below %g\n", model.tensor_count - failures, model.tensor_count, allowed);

  free(grads);
  free(params);
  batch_free(&batch);
  pool_free(pool);
  return failures > 0;
}
