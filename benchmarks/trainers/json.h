// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions that print JSON to stdout.
#ifndef BENCHMARKS_JSON_H
#define BENCHMARKS_JSON_H

// Prints a number with 17 significant digits, or null if the number is not finite.
void json_number(double value);

// Prints `value` as the element of an array with this index. If `index` is not 0, prints ", " before the value.
void json_element(int index, double value);

#endif
