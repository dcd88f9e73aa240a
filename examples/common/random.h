// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same everywhere.
#ifndef EXAMPLES_RANDOM_H
#define EXAMPLES_RANDOM_H

#include <stdint.h>

// Next number of the generator splitmix64, as a double in [0, 1).
double random_uniform(uint64_t* random_state);

// Brings `rows` into a random order.
void random_shuffle(uint64_t* random_state, int count, int* rows);

#endif
