// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L  // pthread
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

struct Pool {
  pthread_mutex_t mutex;  // guards the members from task to stopping
  pthread_cond_t work, done;
  void (*task)(void* argument, int64_t i);
  void* argument;
  int64_t next, count;  // tasks [next, count) have not been taken yet
  int64_t running;
  int stopping;
  int thread_count;  // number of started threads
  pthread_t* threads;
};

// Runs tasks until none is left. The mutex is held on entry and on return.
static void run_tasks(Pool* pool) {
  while (pool->next < pool->count) {
    const int64_t i = pool->next++;
    pool->running += 1;
    pthread_mutex_unlock(&pool->mutex);
    pool->task(pool->argument, i);
    pthread_mutex_lock(&pool->mutex);
    pool->running -= 1;
  }
}

static void* worker(void* argument) {
  Pool* pool = argument;
  pthread_mutex_lock(&pool->mutex);
  while (!pool->stopping) {
    run_tasks(pool);
    if (pool->running == 0) pthread_cond_signal(&pool->done);
    pthread_cond_wait(&pool->work, &pool->mutex);
  }
  pthread_mutex_unlock(&pool->mutex);
  return NULL;
}

Pool* pool_create(int threads) {
  Pool* pool = allocate(1, sizeof(Pool));
  pool->threads = allocate((size_t)threads, sizeof(pthread_t));
  pool->thread_count = threads - 1;
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->done, NULL);
  for (int i = 0; i < pool->thread_count; ++i) {
    const int error = pthread_create(&pool->threads[i], NULL, worker, pool);
    if (error != 0) fail("cannot start thread %d of %d: %s", i + 1, threads, strerror(error));
  }
  return pool;
}

void pool_free(Pool* pool) {
  pthread_mutex_lock(&pool->mutex);
  pool->stopping = 1;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->mutex);
  for (int i = 0; i < pool->thread_count; ++i) pthread_join(pool->threads[i], NULL);
  pthread_cond_destroy(&pool->done);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->mutex);
  free(pool->threads);
  free(pool);
}

int pool_threads(const Pool* pool) { return pool->thread_count + 1; }

void pool_run(void* pool_pointer, void (*task)(void* argument, int64_t i), void* argument, int64_t count) {
  Pool* pool = pool_pointer;
  pthread_mutex_lock(&pool->mutex);
  pool->task = task;
  pool->argument = argument;
  pool->next = 0;
  pool->count = count;
  pthread_cond_broadcast(&pool->work);
  run_tasks(pool);
  while (pool->running > 0) pthread_cond_wait(&pool->done, &pool->mutex);
  pthread_mutex_unlock(&pool->mutex);
}
