// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Random gradients, to measure the time of a step without a network.
#ifndef CUDA_MLP_GRADIENTS_H
#define CUDA_MLP_GRADIENTS_H

#include <stdint.h>

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

// Fills values [count] with nearly normally distributed random numbers of mean 0 and standard deviation `scale`.
void random_values(int64_t count, float* values, float scale, uint64_t seed, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
