// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The threads of this program: gradients, AdamW and Shampoo all run on them, so none competes with another.
#ifndef C_TRANSFORMER_POOL_H
#define C_TRANSFORMER_POOL_H

#include <stdint.h>

typedef struct Pool Pool;

// Starts threads - 1 threads; the one that calls pool_run is the last.
Pool* pool_create(int threads);
void pool_free(Pool* pool);
int pool_threads(const Pool* pool);

// Runs task(argument, i) once for every i in [0, count), on any of the threads, and returns when all have returned.
// Idle threads sleep. `pool` is a Pool*: the signature is that of shampoo_executor.parallel_for.
void pool_run(void* pool, void (*task)(void* argument, int64_t i), void* argument, int64_t count);

// The i-th of `parts` parts of [0, count), as even as can be, is [part_begin(i), part_begin(i + 1)).
static inline int64_t part_begin(int64_t count, int64_t parts, int64_t i) { return count * i / parts; }

#endif
