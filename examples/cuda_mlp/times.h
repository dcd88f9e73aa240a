// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Measures the durations of intervals of work on a CUDA stream, with a pair of CUDA events for each interval.
#ifndef CUDA_MLP_TIMES_H
#define CUDA_MLP_TIMES_H

#include "device.h"

typedef struct {
  int capacity, count;
  cudaEvent_t* begin;  // [capacity]
  cudaEvent_t* end;    // [capacity]
} Times;

typedef struct {
  double mean, median, largest;  // milliseconds
} TimesSummary;

void times_create(Times* times, int capacity);
void times_free(Times* times);

// Enqueue an event at the start or at the end of an interval. These functions do not wait for the GPU.
void times_begin(Times* times, cudaStream_t stream);
void times_end(Times* times, cudaStream_t stream);

// Summarizes all intervals except the first `skip` intervals. Waits for the end of the last interval.
TimesSummary times_summary(const Times* times, int skip);

#endif
