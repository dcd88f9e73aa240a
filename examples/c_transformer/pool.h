// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The thread pool of this program. Gradients, AdamW and the library all run on this pool, so that they do not
// compete for processors.
#ifndef C_TRANSFORMER_POOL_H
#define C_TRANSFORMER_POOL_H

#include <stdint.h>

typedef struct Pool Pool;

// Creates a pool and starts `threads` - 1 new threads. The thread that calls pool_run() runs tasks, too.
Pool* pool_create(int threads);
void pool_free(Pool* pool);
int pool_threads(const Pool* pool);

// Runs task(argument, i) once for every i in [0, count) on any of the threads, and returns when all tasks have
// returned. Idle threads sleep. `pool` is a Pool*. Its type is void*, so that pool_run can be used as
// shampoo_executor.parallel_for.
void pool_run(void* pool, void (*task)(void* argument, int64_t i), void* argument, int64_t count);

// Divides [0, count) into `parts` parts, as evenly as possible, and returns the start of part i. Part i ends at the
// start of part i + 1.
static inline int64_t part_begin(int64_t count, int64_t parts, int64_t i) { return count * i / parts; }

#endif
