// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "adamw.h"

namespace {

struct Scalars {
  float beta1, beta2, epsilon, weight_decay, inverse_correction1, root_scale;
};

__global__ void Step(int64_t count, Scalars s, const float* lr, const float* grads, float* params, float* first,
                     float* second) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float g = grads[i];
  const float m = first[i] = s.beta1 * first[i] + (1 - s.beta1) * g;
  const float v = second[i] = s.beta2 * second[i] + (1 - s.beta2) * g * g;
  const float keep = 1 - *lr * s.weight_decay;
  params[i] = keep * params[i] - *lr * s.inverse_correction1 * m / (sqrtf(v) * s.root_scale + s.epsilon);
}

}  // namespace

void device_adamw_create(DeviceAdamW* adamw, int64_t count, const float* lr, double weight_decay) {
  adamw->beta1 = 0.9;
  adamw->beta2 = 0.999;
  adamw->epsilon = 1e-8;
  adamw->weight_decay = weight_decay;
  adamw->lr = lr;
  adamw->step = 0;
  adamw->count = count;
  adamw->first = static_cast<float*>(device_allocate(static_cast<size_t>(count), sizeof(float)));
  adamw->second = static_cast<float*>(device_allocate(static_cast<size_t>(count), sizeof(float)));
}

void device_adamw_free(DeviceAdamW* adamw) {
  cudaFree(adamw->first);
  cudaFree(adamw->second);
}

void device_adamw_step(DeviceAdamW* adamw, float* params, const float* grads, cudaStream_t stream) {
  adamw->step += 1;
  // Bias correction, because the moving averages `first` and `second` start at 0.
  const double correction1 = 1 - std::pow(adamw->beta1, adamw->step);
  const double correction2 = 1 - std::pow(adamw->beta2, adamw->step);
  Scalars scalars;
  scalars.beta1 = static_cast<float>(adamw->beta1);
  scalars.beta2 = static_cast<float>(adamw->beta2);
  scalars.epsilon = static_cast<float>(adamw->epsilon);
  scalars.weight_decay = static_cast<float>(adamw->weight_decay);
  scalars.inverse_correction1 = static_cast<float>(1 / correction1);
  scalars.root_scale = static_cast<float>(1 / std::sqrt(correction2));
  const int threads = 256;
  const auto blocks = static_cast<unsigned>((adamw->count + threads - 1) / threads);
  Step<<<blocks, threads, 0, stream>>>(adamw->count, scalars, adamw->lr, grads, params, adamw->first, adamw->second);
  check_cuda(cudaGetLastError(), "AdamW");
}
