// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Prints JSON to stdout.
#ifndef BENCHMARKS_JSON_H
#define BENCHMARKS_JSON_H

// Prints a number with all its digits; null if it is not finite.
void json_number(double value);

// Prints ", " unless `index` is 0, and the number.
void json_element(int index, double value);

#endif
