// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "adamw.h"
#include "check.h"
#include "gradients.h"
#include "progress.h"
#include "runs.h"
#include "times.h"
#include "with_shampoo.h"

enum {
  kVocabulary = 50257,
  kContext = 1024,
  kWidth = 768,
  kTensorsOfLayer = 12,
  kWarmUp = 10,  // number of steps at the start whose times are not reported
};

// The parameters of GPT-2. Their values are in one flat buffer, and their gradients are in another.
typedef struct {
  int count;
  Tensor* tensors;
  int64_t values;  // number of values of all tensors
} Model;

// Adds a parameter, and formats its name as printf does. If columns is 0, the parameter is a vector.
static void add(Model* model, int64_t rows, int64_t columns, const char* format, ...) {
  Tensor* tensor = &model->tensors[model->count++];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(tensor->name, sizeof tensor->name, format, arguments);
  va_end(arguments);
  tensor->ndim = columns == 0 ? 1 : 2;
  tensor->shape[0] = rows;
  tensor->shape[1] = columns;
  model->values += rows * (columns == 0 ? 1 : columns);
}

// Sets the names and shapes of the parameters. The shapes are those of the smallest published GPT-2 model, but with
// `layers` layers.
static void model_create(Model* model, int layers) {
  model->count = 0;
  model->values = 0;
  model->tensors = allocate((size_t)(4 + kTensorsOfLayer * layers), sizeof(Tensor));
  add(model, kVocabulary, kWidth, "wte");
  add(model, kContext, kWidth, "wpe");
  for (int i = 0; i < layers; ++i) {
    add(model, kWidth, 0, "h%d.ln_1.weight", i);
    add(model, kWidth, 0, "h%d.ln_1.bias", i);
    add(model, kWidth, 3 * kWidth, "h%d.attn.c_attn.weight", i);
    add(model, 3 * kWidth, 0, "h%d.attn.c_attn.bias", i);
    add(model, kWidth, kWidth, "h%d.attn.c_proj.weight", i);
    add(model, kWidth, 0, "h%d.attn.c_proj.bias", i);
    add(model, kWidth, 0, "h%d.ln_2.weight", i);
    add(model, kWidth, 0, "h%d.ln_2.bias", i);
    add(model, kWidth, 4 * kWidth, "h%d.mlp.c_fc.weight", i);
    add(model, 4 * kWidth, 0, "h%d.mlp.c_fc.bias", i);
    add(model, 4 * kWidth, kWidth, "h%d.mlp.c_proj.weight", i);
    add(model, kWidth, 0, "h%d.mlp.c_proj.bias", i);
  }
  add(model, kWidth, 0, "ln_f.weight");
  add(model, kWidth, 0, "ln_f.bias");
}

static void model_place(Model* model, float* params, float* grads) {
  int64_t offset = 0;
  for (int t = 0; t < model->count; ++t) {
    Tensor* tensor = &model->tensors[t];
    tensor->param = params + offset;
    tensor->grad = grads + offset;
    offset += tensor->shape[0] * (tensor->ndim == 2 ? tensor->shape[1] : 1);
  }
}

static void report(const char* name, const Times* times) {
  const TimesSummary of = times_summary(times, kWarmUp);
  printf("%-19s %8.3f ms %8.3f ms %8.3f ms\n", name, of.median, of.mean, of.largest);
}

void gpt2_run(const Options* options) {
  Model model;
  Times shampoo_times, adamw_times;
  WithShampoo shampoo;
  DeviceAdamW adamw;
  cudaStream_t stream;
  const float rate = 1e-4f;
  const int steps = kWarmUp + options->steps;

  model_create(&model, options->layers);
  const size_t values = (size_t)model.values;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  float* params = device_allocate(values, sizeof(float));
  float* adamw_params = device_allocate(values, sizeof(float));
  float* grads = device_allocate(values, sizeof(float));
  float* lr = device_allocate(1, sizeof(float));
  device_upload(lr, &rate, sizeof rate, stream);
  model_place(&model, params, grads);
  const Placement placement = {.device = options->device, .stream = stream, .lr = lr};
  with_shampoo_create(&shampoo, model.tensors, model.count, &options->settings, &placement);
  device_adamw_create(&adamw, model.values, lr, options->weight_decay);
  times_create(&shampoo_times, steps);
  times_create(&adamw_times, steps);

  printf("model       shapes of GPT-2 with %d layers: %d tensors, %.1f million parameters\n", options->layers,
         model.count, 1e-6 * (double)model.values);
  printf("gradients   random numbers\n");
  printf("steps       %d, after %d whose times are not reported; precondition_frequency %s\n", options->steps, kWarmUp,
         shampoo.frequency);
  printf("state       Shampoo %.0f MiB, AdamW %.0f MiB\n", (double)shampoo.state_bytes / 1048576,
         2.0 * (double)model.values * sizeof(float) / 1048576);

  random_values(model.values, params, 0.02f, (uint64_t)options->seed, stream);
  check_cuda(cudaMemcpyAsync(adamw_params, params, values * sizeof(float), cudaMemcpyDeviceToDevice, stream),
             "weights");
  for (int step = 0; step < steps; ++step) {
    show_progress(step, steps);
    random_values(model.values, grads, 1e-3f, (uint64_t)options->seed + 1 + (uint64_t)step, stream);
    times_begin(&shampoo_times, stream);
    with_shampoo_step(&shampoo, stream);
    times_end(&shampoo_times, stream);
    times_begin(&adamw_times, stream);
    device_adamw_step(&adamw, adamw_params, grads, stream);
    times_end(&adamw_times, stream);
  }
  check_cuda(cudaStreamSynchronize(stream), "waiting for the last step");
  clear_progress();
  printf("\ntime of a step           median        mean     largest\n");
  report("Shampoo", &shampoo_times);
  report("AdamW", &adamw_times);
  printf("Shampoo computed %.0f inverse roots\n", with_shampoo_roots(&shampoo));

  times_free(&adamw_times);
  times_free(&shampoo_times);
  device_adamw_free(&adamw);
  with_shampoo_free(&shampoo);
  cudaFree(lr);
  cudaFree(grads);
  cudaFree(adamw_params);
  cudaFree(params);
  free(model.tensors);
  cudaStreamDestroy(stream);
}
