// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Gradients out of thin air, for times without a network.
#ifndef CUDA_MLP_GRADIENTS_H
#define CUDA_MLP_GRADIENTS_H

#include <stdint.h>

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

// values [count] become random numbers around 0, bell-shaped with a deviation of `scale`; others for another seed.
void random_values(int64_t count, float* values, float scale, uint64_t seed, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
