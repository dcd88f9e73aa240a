// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adamw.h"
#include "check.h"
#include "digits.h"
#include "mlp.h"
#include "network.h"
#include "progress.h"
#include "random.h"
#include "report.h"
#include "runs.h"
#include "times.h"
#include "with_shampoo.h"

static void evaluate(DeviceMlp* net, const Digits* digits, const DeviceDigits* images, Curve* curve, int epoch) {
  int correct;
  curve->loss[epoch] = device_mlp_evaluate(net, images, 0, digits->train_count, &correct);
  device_mlp_evaluate(net, images, digits->train_count, digits->test_count, &correct);
  curve->accuracy[epoch] = (double)correct / digits->test_count;
}

// Checks that the gradient of a batch equals, up to rounding, the gradient that c_mlp's code computes on the host.
static void check_gradient(DeviceMlp* net, Mlp* host, const Digits* digits, const DeviceDigits* images, const int* rows,
                           const int* device_rows) {
  const int count = net->rows;
  real* x = allocate((size_t)count * kInputs, sizeof(real));
  int* labels = allocate((size_t)count, sizeof(int));
  real* device_grads = allocate(kValues, sizeof(real));
  for (int r = 0; r < count; ++r) {
    memcpy(x + (size_t)r * kInputs, digits->images + (size_t)rows[r] * kInputs, kInputs * sizeof(real));
    labels[r] = digits->labels[rows[r]];
  }
  mlp_gradient(host, count, x, labels);
  device_mlp_gradient(net, images, device_rows, count, 1.0f / (float)count);
  device_download(device_grads, net->grads, kValues * sizeof(real), net->stream);
  double largest = 0, difference = 0;
  for (int i = 0; i < kValues; ++i) {
    largest = fmax(largest, fabs((double)host->grads[i]));
    difference = fmax(difference, fabs((double)(host->grads[i] - device_grads[i])));
  }
  printf("gradient    differs from the host's gradient by at most %.1e of its largest element\n", difference / largest);
  if (!(difference < 1e-4 * largest)) fail("the gradients differ by more than rounding");
  free(device_grads);
  free(labels);
  free(x);
}

void digits_run(const Options* options) {
  Digits digits;
  DeviceDigits images;
  Mlp host;
  DeviceMlp nets[kContenders];
  Curve curves[kContenders] = {{0}};
  Times gradient_times[kContenders], update_times[kContenders];
  WithShampoo shampoo;
  DeviceAdamW adamw;
  cudaStream_t stream;
  uint64_t random_state = (uint64_t)options->seed;

  digits_load(&digits, options->data);
  if (options->batch > digits.train_count) fail("--batch %d: there are %d images", options->batch, digits.train_count);
  const int steps_per_epoch = digits.train_count / options->batch, steps = options->epochs * steps_per_epoch;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  device_digits_create(&images, &digits, stream);
  mlp_create(&host, options->batch);
  mlp_init(&host, &random_state);
  for (int c = 0; c < kContenders; ++c) {
    device_mlp_create(&nets[c], options->batch, host.params, stream);
    times_create(&gradient_times[c], steps);
    times_create(&update_times[c], steps);
    curves[c].loss = allocate((size_t)options->epochs + 1, sizeof(double));
    curves[c].accuracy = allocate((size_t)options->epochs + 1, sizeof(double));
  }

  // rates[c] contains the learning rates of all steps of optimizer c. The optimizer reads lr[c], to which the learning
  // rate is copied before each step.
  float* rates[kContenders];
  float* lr = device_allocate(kContenders, sizeof(float));
  const double highest[kContenders] = {options->lr, options->adamw_lr};
  for (int c = 0; c < kContenders; ++c) {
    float* cosine = allocate((size_t)steps, sizeof(float));
    for (int s = 0; s < steps; ++s) {
      cosine[s] = (float)(highest[c] * 0.5 * (1 + cos(3.14159265358979323846 * s / steps)));
    }
    rates[c] = device_allocate((size_t)steps, sizeof(float));
    device_upload(rates[c], cosine, (size_t)steps * sizeof(float), stream);
    free(cosine);
  }

  Tensor tensors[kTensors];
  for (int t = 0; t < kTensors; ++t) {
    const MlpTensor* from = &mlp_tensors[t];
    Tensor* tensor = &tensors[t];
    snprintf(tensor->name, sizeof tensor->name, "%s", from->name);
    tensor->ndim = from->ndim;
    for (int d = 0; d < from->ndim; ++d) tensor->shape[d] = from->shape[d];
    tensor->param = nets[kShampoo].params + from->offset;
    tensor->grad = nets[kShampoo].grads + from->offset;
  }
  // max_preconditioner_dim is set to 128, the largest dim of the network, for runs with --set preset=shampoo_2024. This
  // preset merges dims if their product is at most max_preconditioner_dim. With the default 1024, it would merge the
  // 10 x 64 matrix W3 into a vector.
  Settings settings = {0};
  settings_add(&settings, "max_preconditioner_dim=128");
  for (int i = 0; i < options->settings.count; ++i) settings_add(&settings, options->settings.texts[i]);
  const Placement placement = {.device = options->device, .stream = stream, .lr = &lr[kShampoo]};
  with_shampoo_create(&shampoo, tensors, kTensors, &settings, &placement);
  device_adamw_create(&adamw, kValues, &lr[kAdamW], options->weight_decay);

  printf("digits      %d training images, %d test images\n", digits.train_count, digits.test_count);
  printf("network     64-128-64-10, tanh, %d parameters\n", kValues);
  printf("steps       %d epochs of %d steps with %d images each\n", options->epochs, steps_per_epoch, options->batch);
  printf("state       Shampoo %.0f KiB, AdamW %.0f KiB\n", (double)shampoo.state_bytes / 1024,
         2.0 * kValues * sizeof(float) / 1024);

  int* rows = allocate((size_t)digits.train_count, sizeof(int));
  int* device_rows = device_allocate((size_t)digits.train_count, sizeof(int));
  for (int i = 0; i < digits.train_count; ++i) rows[i] = i;
  device_upload(device_rows, rows, (size_t)digits.train_count * sizeof(int), stream);
  check_gradient(&nets[kShampoo], &host, &digits, &images, rows, device_rows);
  report_head();
  for (int c = 0; c < kContenders; ++c) evaluate(&nets[c], &digits, &images, &curves[c], 0);
  report_epoch(0, curves);

  for (int epoch = 1, step = 0; epoch <= options->epochs; ++epoch) {
    random_shuffle(&random_state, digits.train_count, rows);
    device_upload(device_rows, rows, (size_t)digits.train_count * sizeof(int), stream);
    for (int s = 0; s < steps_per_epoch; ++s, ++step) {
      show_progress(step, steps);
      for (int c = 0; c < kContenders; ++c) {
        check_cuda(cudaMemcpyAsync(&lr[c], &rates[c][step], sizeof(float), cudaMemcpyDeviceToDevice, stream),
                   "learning rate");
        times_begin(&gradient_times[c], stream);
        device_mlp_gradient(&nets[c], &images, device_rows + (size_t)s * (size_t)options->batch, options->batch,
                            1.0f / (float)options->batch);
        times_end(&gradient_times[c], stream);
        times_begin(&update_times[c], stream);
        if (c == kShampoo) {
          with_shampoo_step(&shampoo, stream);
        } else {
          device_adamw_step(&adamw, nets[c].params, nets[c].grads, stream);
        }
        times_end(&update_times[c], stream);
      }
    }
    for (int c = 0; c < kContenders; ++c) evaluate(&nets[c], &digits, &images, &curves[c], epoch);
    report_epoch(epoch, curves);
  }

  for (int c = 0; c < kContenders; ++c) {
    curves[c].gradient_seconds = 1e-3 * steps * times_summary(&gradient_times[c], 0).mean;
    curves[c].update_seconds = 1e-3 * steps * times_summary(&update_times[c], 0).mean;
  }
  report_times(steps, curves);
  printf("Shampoo computed %.0f inverse roots\n", with_shampoo_roots(&shampoo));

  free(rows);
  cudaFree(device_rows);
  device_adamw_free(&adamw);
  with_shampoo_free(&shampoo);
  settings_free(&settings);
  for (int c = 0; c < kContenders; ++c) {
    cudaFree(rates[c]);
    free(curves[c].accuracy);
    free(curves[c].loss);
    times_free(&update_times[c]);
    times_free(&gradient_times[c]);
    device_mlp_free(&nets[c]);
  }
  cudaFree(lr);
  mlp_free(&host);
  device_digits_free(&images);
  digits_free(&digits);
  cudaStreamDestroy(stream);
}
