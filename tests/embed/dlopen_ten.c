// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program that loads and closes the library ten times. It then closes the library in three other situations: during
// training; while the library holds an error message for a thread; and while an optimizer exists that is never
// destroyed.
// Usage: dlopen_ten <library> [--tidy]
// With --tidy, which is for leak checkers, the program leaves out the last situation.
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "tests/embed/process.h"
#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

static const char* path;
static trainer shared;
static trainer left_alive;
static sem_t failed;
static sem_t closed;

// Causes an error, whose message the library stores for this thread. The thread ends after the library was closed.
static void* fail_and_outlive(void* argument) {
  const api* const functions = argument;
  REQUIRE(functions->config_create(NULL) == SHAMPOO_E_INVALID, "a NULL was accepted");
  sem_post(&failed);
  sem_wait(&closed);
  return NULL;
}

static uint64_t one_round(const workload* work) {
  const api functions = api_open(path);
  const uint64_t hash = train(&functions, work, 4);
  api_close(&functions);
  return hash;
}

int main(int argc, char** argv) {
  REQUIRE(argc >= 2, "%d arguments: expected the library", argc - 1);
  const int tidy = argc > 2 && strcmp(argv[2], "--tidy") == 0;
  path = argv[1];
  const int threads_before = thread_count();
  const workload work = workload_default(2);
  const uint64_t first = one_round(&work);
  for (int round = 2; round <= 10; ++round) {
    const uint64_t hash = one_round(&work);
    REQUIRE(hash == first, "round %d: hash %016" PRIx64 ", in round 1 %016" PRIx64, round, hash, first);
  }
  require_thread_count(threads_before, "after ten rounds");

  // Closes the library during training.
  const api functions = api_open(path);
  trainer_begin(&shared, &functions, &work, NULL);
  trainer_step(&shared, 2);
  require_thread_count(threads_before + 1, "with an optimizer of 2 threads");
  api_close(&functions);
  void* const still_there = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(still_there != NULL, "the library was unmapped by dlclose");
  dlclose(still_there);
  trainer_step(&shared, 2);
  const uint64_t hash = trainer_hash(&shared);
  REQUIRE(hash == first, "closed between two steps: hash %016" PRIx64 ", expected %016" PRIx64, hash, first);
  trainer_end(&shared);
  require_thread_count(threads_before, "after destroy");

  // Closes the library while a thread exists for which it has stored an error message. The thread ends afterwards.
  api again = api_open(path);
  pthread_t thread;
  sem_init(&failed, 0, 0);
  sem_init(&closed, 0, 0);
  REQUIRE(pthread_create(&thread, NULL, fail_and_outlive, &again) == 0, "no thread");
  sem_wait(&failed);
  api_close(&again);
  sem_post(&closed);
  pthread_join(thread, NULL);

  // Closes the library and ends the program while an optimizer and its threads exist.
  if (tidy) return 0;
  again = api_open(path);
  trainer_begin(&left_alive, &again, &work, NULL);
  trainer_step(&left_alive, 1);
  api_close(&again);
  return 0;
}
