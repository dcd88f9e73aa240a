// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program with its own executor, which runs the library's tasks. The executor runs tasks serially in reverse order,
// or starts a thread for each task. It may have more or fewer threads than the plan. Results must be bit-identical to
// results with the library's thread pool. The library must start no thread, and must call release once.
#include <inttypes.h>

#include "tests/embed/own_threads.h"
#include "tests/embed/process.h"
#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

typedef struct host {
  int calls;
  int64_t max_tasks;
  int released;
} host;

static void note(host* h, int64_t count) {
  ++h->calls;
  if (count > h->max_tasks) h->max_tasks = count;
}

static void in_reverse(void* user, void (*task)(void* argument, int64_t i), void* argument, int64_t count) {
  note(user, count);
  while (count > 0) task(argument, --count);
}

static void threads_of_the_host(void* user, void (*task)(void* argument, int64_t i), void* argument, int64_t count) {
  note(user, count);
  run_on_own_threads(task, argument, count);
}

static void release(void* user) { ++((host*)user)->released; }

static trainer t;

static void check(const api* functions, const char* name, shampoo_executor executor, int plan_threads,
                  uint64_t expected) {
  host h = {0, 0, 0};
  executor.user = &h;
  executor.release = release;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.executor = &executor;
  const workload work = workload_default(plan_threads);
  require_thread_count(1, "before create");
  trainer_begin(&t, functions, &work, &desc);
  require_thread_count(1, name);
  executor.parallel_for = NULL;  // has no effect, because the library has copied the struct
  trainer_step(&t, 6);
  REQUIRE(h.released == 0, "%s: released too early", name);
  const uint64_t hash = trainer_hash(&t);
  trainer_end(&t);
  REQUIRE(hash == expected, "%s: hash %016" PRIx64 ", with the library's pool %016" PRIx64, name, hash, expected);
  REQUIRE(h.calls > 0, "%s: the executor was never called", name);
  const int64_t limit = executor.threads < plan_threads ? executor.threads : plan_threads;
  REQUIRE(h.max_tasks <= limit, "%s: one call for %lld tasks, the limit is %lld", name, (long long)h.max_tasks,
          (long long)limit);
  REQUIRE(h.max_tasks > 1, "%s: never called for more than one task", name);
  REQUIRE(h.released == 1, "%s: released %d times", name, h.released);
}

// Lets the library choose the number of threads. The library must then not call the executor for this model, because a
// step takes only microseconds.
static void check_choice_of_library(const api* functions, shampoo_executor executor, uint64_t expected) {
  host h = {0, 0, 0};
  executor.user = &h;
  executor.parallel_for = in_reverse;
  executor.threads = 16;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.executor = &executor;
  const workload work = workload_default(0);
  trainer_begin(&t, functions, &work, &desc);
  trainer_step(&t, 6);
  const uint64_t hash = trainer_hash(&t);
  trainer_end(&t);
  REQUIRE(hash == expected, "hash %016" PRIx64 ", with the library's pool %016" PRIx64, hash, expected);
  REQUIRE(h.calls == 0, "%d calls of parallel_for, of up to %lld tasks", h.calls, (long long)h.max_tasks);
}

int main(void) {
  const api functions = api_linked();
  const workload work = workload_default(3);
  const uint64_t expected = train(&functions, &work, 6);
  shampoo_executor executor = SHAMPOO_EXECUTOR_INIT;
  executor.parallel_for = in_reverse;
  executor.threads = 4;
  check(&functions, "in reverse", executor, 4, expected);
  executor.threads = 16;
  check(&functions, "in reverse, more threads than the plan", executor, 3, expected);
  executor.parallel_for = threads_of_the_host;
  check(&functions, "threads of the host", executor, 8, expected);
  executor.threads = 2;
  check(&functions, "threads of the host, fewer than the plan", executor, 8, expected);
  check_choice_of_library(&functions, executor, expected);
  return 0;
}
