// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// AdamW on a GPU, to which Shampoo is compared. One kernel updates all parameters, and reads and writes each number
// at most once.
#ifndef CUDA_MLP_ADAMW_H
#define CUDA_MLP_ADAMW_H

#include <stdint.h>

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  double beta1, beta2, epsilon, weight_decay;
  const float* lr;  // the learning rate, in GPU memory
  int step;
  int64_t count;  // number of parameter values
  float* first;   // [count], first moment: moving average of the gradient
  float* second;  // [count], second moment: moving average of the squared gradient
} DeviceAdamW;

// Uses beta1 0.9, beta2 0.999 and epsilon 1e-8, like ../common/adamw.h. `lr` is in GPU memory; each step reads it.
void device_adamw_create(DeviceAdamW* adamw, int64_t count, const float* lr, double weight_decay);
void device_adamw_free(DeviceAdamW* adamw);

// Enqueues one step: reads grads [count] and updates params [count].
void device_adamw_step(DeviceAdamW* adamw, float* params, const float* grads, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
