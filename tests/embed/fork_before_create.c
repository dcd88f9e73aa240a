// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program that forks in three states: before it has created an optimizer, after it has destroyed an optimizer, and
// while it has an optimizer. Servers and data loaders do this. Each child creates an optimizer. If a child hangs, an
// alarm ends it, and the test fails.
#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/embed/process.h"
#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

enum { kSteps = 5, kLimitSeconds = 120 };

static api functions;
static workload work;

// Creates and trains an optimizer in the child. The optimizer must start a thread, because fork copies only the thread
// that calls fork.
static uint64_t train_in_child(void) {
  static trainer own;
  const int threads_before = thread_count();
  trainer_begin(&own, &functions, &work, NULL);
  require_thread_count(threads_before + 1, "child, with an optimizer of 2 threads");
  trainer_step(&own, kSteps);
  const uint64_t hash = trainer_hash(&own);
  trainer_end(&own);
  return hash;
}

static void run_child(const char* when, uint64_t expected, int depth) {
  fflush(NULL);
  const pid_t child = fork();
  REQUIRE(child >= 0, "fork failed");
  if (child == 0) {
    alarm(kLimitSeconds);
    const uint64_t hash = train_in_child();
    REQUIRE(hash == expected, "child, %s: hash %016" PRIx64 ", expected %016" PRIx64, when, hash, expected);
    if (depth > 0) run_child("from a child", expected, depth - 1);
    exit(0);  // runs the destructors of the library
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child, "waitpid failed");
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child, %s: %s %d", when,
          WIFEXITED(status) ? "exit status" : "ended by signal",
          WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int main(void) {
  functions = api_linked();
  work = workload_default(2);
  // The expected hash is computed in a child because this process must not create an optimizer before the first call of
  // run_child.
  int channel[2];
  REQUIRE(pipe(channel) == 0, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    alarm(kLimitSeconds);
    const uint64_t hash = train_in_child();
    REQUIRE(write(channel[1], &hash, sizeof hash) == (ssize_t)sizeof hash, "write failed");
    exit(0);
  }
  close(channel[1]);
  uint64_t expected = 0;
  REQUIRE(read(channel[0], &expected, sizeof expected) == (ssize_t)sizeof expected, "the first child gave no result");
  waitpid(child, NULL, 0);

  alarm(6 * kLimitSeconds);
  run_child("before an optimizer was created", expected, 1);

  const uint64_t own = train(&functions, &work, kSteps);
  REQUIRE(own == expected, "parent: hash %016" PRIx64 ", in the child %016" PRIx64, own, expected);
  run_child("after an optimizer was destroyed", expected, 1);

#ifndef __SANITIZE_THREAD__  // ThreadSanitizer does not support fork in a process with threads
  static trainer parents;
  trainer_begin(&parents, &functions, &work, NULL);
  trainer_step(&parents, 2);
  run_child("while the parent has an optimizer", expected, 1);
  trainer_step(&parents, kSteps - 2);
  REQUIRE(trainer_hash(&parents) == expected,
          "parent, with a fork in between: hash %016" PRIx64 ", expected %016" PRIx64, trainer_hash(&parents),
          expected);
  trainer_end(&parents);
#endif
  return 0;
}
