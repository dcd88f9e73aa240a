// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program that forks while it has optimizers with threads. The child destroys the inherited optimizers, as
// destructors of a C++ program do when a child exits. If a child hangs, an alarm ends it and the test fails.
#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/embed/process.h"
#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

enum { kSteps = 6, kThreads = 4, kForks = 20, kLimitSeconds = 120 };

static api functions;
static workload work;
static trainer inherited[2];

// Destroys inherited[first] and trains a new optimizer. Then begins to train another new optimizer, destroys
// inherited[1 - first], and finishes the training.
static void run_child(int first, uint64_t expected) {
  static trainer own;
  alarm(kLimitSeconds);
  trainer_end(&inherited[first]);
  REQUIRE(train(&functions, &work, kSteps) == expected, "child: another hash than in the parent");
  trainer_begin(&own, &functions, &work, NULL);
  trainer_step(&own, 2);
  trainer_end(&inherited[1 - first]);
  trainer_step(&own, kSteps - 2);
  REQUIRE(trainer_hash(&own) == expected, "child: another hash after the parent's optimizers were destroyed");
  trainer_end(&own);
  require_thread_count(1, "child, with all optimizers destroyed");
  exit(0);  // runs the destructors of the library
}

static void require_success(int first, uint64_t expected) {
  fflush(NULL);
  const pid_t child = fork();
  REQUIRE(child >= 0, "fork failed");
  if (child == 0) run_child(first, expected);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child, "waitpid failed");
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child: %s %d",
          WIFEXITED(status) ? "exit status" : "ended by signal",
          WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int main(void) {
#ifdef __SANITIZE_THREAD__
  puts("skipped: ThreadSanitizer cannot follow a fork of a process with threads");
  return SKIPPED;
#endif
  functions = api_linked();
  work = workload_default(kThreads);
  const uint64_t expected = train(&functions, &work, kSteps);
  for (int i = 0; i < 2; ++i) trainer_begin(&inherited[i], &functions, &work, NULL);
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < 2; ++i) trainer_step(&inherited[i], 1);
    // At each fork, the parent's threads have just worked and may be at any point before they sleep.
    for (int k = 0; k < kForks / kSteps + 1; ++k) require_success(k % 2, expected);
  }
  for (int i = 0; i < 2; ++i) {
    REQUIRE(trainer_hash(&inherited[i]) == expected, "parent: hash %016" PRIx64 ", expected %016" PRIx64,
            trainer_hash(&inherited[i]), expected);
    trainer_end(&inherited[i]);
  }
  require_thread_count(1, "parent, at its end");
  return 0;
}
