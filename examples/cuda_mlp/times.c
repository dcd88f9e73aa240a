// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "times.h"

#include <stdlib.h>

#include "check.h"

void times_create(Times* times, int capacity) {
  times->capacity = capacity;
  times->count = 0;
  times->begin = allocate((size_t)capacity, sizeof(cudaEvent_t));
  times->end = allocate((size_t)capacity, sizeof(cudaEvent_t));
  for (int i = 0; i < capacity; ++i) {
    check_cuda(cudaEventCreate(&times->begin[i]), "cudaEventCreate");
    check_cuda(cudaEventCreate(&times->end[i]), "cudaEventCreate");
  }
}

void times_free(Times* times) {
  for (int i = 0; i < times->capacity; ++i) {
    cudaEventDestroy(times->begin[i]);
    cudaEventDestroy(times->end[i]);
  }
  free(times->begin);
  free(times->end);
}

void times_begin(Times* times, cudaStream_t stream) {
  if (times->count == times->capacity) fail("more than %d intervals", times->capacity);
  check_cuda(cudaEventRecord(times->begin[times->count], stream), "cudaEventRecord");
}

void times_end(Times* times, cudaStream_t stream) {
  check_cuda(cudaEventRecord(times->end[times->count], stream), "cudaEventRecord");
  times->count += 1;
}

static int compare(const void* a, const void* b) {
  const float x = *(const float*)a, y = *(const float*)b;
  return (x > y) - (x < y);
}

TimesSummary times_summary(const Times* times, int skip) {
  TimesSummary summary = {0, 0, 0};
  const int count = times->count - skip;
  if (count <= 0) return summary;
  float* all = allocate((size_t)count, sizeof(float));
  check_cuda(cudaEventSynchronize(times->end[times->count - 1]), "waiting for the last step");
  for (int i = 0; i < count; ++i) {
    check_cuda(cudaEventElapsedTime(&all[i], times->begin[skip + i], times->end[skip + i]), "cudaEventElapsedTime");
    summary.mean += (double)all[i] / count;
  }
  qsort(all, (size_t)count, sizeof(float), compare);
  summary.median = (double)all[count / 2];
  summary.largest = (double)all[count - 1];
  free(all);
  return summary;
}
