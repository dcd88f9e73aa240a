// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L  // clock_gettime
#include "clock.h"

#include <stdlib.h>
#include <time.h>

double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

double median(int count, double* values) {
  if (count == 0) return 0;
  qsort(values, (size_t)count, sizeof *values, compare);
  return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}
