// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef BENCHMARKS_CLOCK_H
#define BENCHMARKS_CLOCK_H

// Returns the time in seconds of a clock that never goes back.
double seconds(void);

// Sorts the values in place, and returns their median. Returns 0 if there are no values.
double median(int count, double* values);

#endif
