// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Times of work on a stream, by events of CUDA: from where one stretch of work begins on the GPU to where it ends.
#ifndef CUDA_MLP_TIMES_H
#define CUDA_MLP_TIMES_H

#include "device.h"

typedef struct {
  int capacity, count;
  cudaEvent_t* begin;  // [capacity]
  cudaEvent_t* end;
} Times;

typedef struct {
  double mean, median, largest;  // in milliseconds
} TimesSummary;

void times_create(Times* times, int capacity);
void times_free(Times* times);

// Around the work of one stretch; nothing is waited for.
void times_begin(Times* times, cudaStream_t stream);
void times_end(Times* times, cudaStream_t stream);

// Of all stretches but the first `skip`. Waits for the last.
TimesSummary times_summary(const Times* times, int skip);

#endif
