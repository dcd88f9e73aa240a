// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same on every machine.
#ifndef EXAMPLES_RANDOM_H
#define EXAMPLES_RANDOM_H

#include <stdint.h>

// Returns the next number of the generator splitmix64, in [0, 1).
double random_uniform(uint64_t* random_state);

void random_shuffle(uint64_t* random_state, int count, int* rows);

#endif
