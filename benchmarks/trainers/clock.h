// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef BENCHMARKS_CLOCK_H
#define BENCHMARKS_CLOCK_H

// Returns the seconds of a clock that never goes back.
double seconds(void);

// Returns the median; sorts the values.
double median(int count, double* values);

#endif
