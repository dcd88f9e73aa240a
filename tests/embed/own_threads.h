// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_TESTS_EMBED_OWN_THREADS_H
#define SHAMPOO_TESTS_EMBED_OWN_THREADS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/embed/require.h"

enum { MAX_OWN_THREADS = 16 };

typedef struct own_task {
  void (*task)(void* argument, int64_t i);
  void* argument;
  int64_t i;
} own_task;

static void* run_own_task(void* user) {
  const own_task* const one = user;
  one->task(one->argument, one->i);
  return NULL;
}

// Runs task(argument, i) for each i from 0 to count - 1, each on a new thread, and waits for all threads.
static void run_on_own_threads(void (*task)(void* argument, int64_t i), void* argument, int64_t count) {
  pthread_t thread[MAX_OWN_THREADS];
  own_task tasks[MAX_OWN_THREADS];
  REQUIRE(count <= MAX_OWN_THREADS, "%lld tasks", (long long)count);
  for (int64_t i = 0; i < count; ++i) {
    tasks[i] = (own_task){task, argument, i};
    REQUIRE(pthread_create(&thread[i], NULL, run_own_task, &tasks[i]) == 0, "no thread");
  }
  for (int64_t i = 0; i < count; ++i) pthread_join(thread[i], NULL);
}

#endif
