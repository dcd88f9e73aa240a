// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The thread pool of this program. Gradients, AdamW and Shampoo all run on it, so they do not compete for processors.
#ifndef C_TRANSFORMER_POOL_H
#define C_TRANSFORMER_POOL_H

#include <stdint.h>

typedef struct Pool Pool;

// Starts threads - 1 threads. The caller of pool_run also works.
Pool* pool_create(int threads);
void pool_free(Pool* pool);
int pool_threads(const Pool* pool);

// Runs task(argument, i) once for every i in [0, count) on any of the threads, and returns when all tasks have
// returned. Idle threads sleep. `pool` is a Pool*; the signature is that of shampoo_executor.parallel_for.
void pool_run(void* pool, void (*task)(void* argument, int64_t i), void* argument, int64_t count);

// Divides [0, count) into `parts` parts, as evenly as possible, and returns the start of part i. The part ends at the
// start of part i + 1.
static inline int64_t part_begin(int64_t count, int64_t parts, int64_t i) { return count * i / parts; }

#endif
