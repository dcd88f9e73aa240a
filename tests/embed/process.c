// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/embed/process.h"

#include <dirent.h>
#include <time.h>

#include "tests/embed/require.h"

int thread_count(void) {
  int count = 0;
  DIR* const tasks = opendir("/proc/self/task");
  REQUIRE(tasks != NULL, "/proc/self/task cannot be read");
  for (const struct dirent* entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

void require_thread_count(int wanted, const char* when) {
#ifdef __SANITIZE_THREAD__
  (void)wanted, (void)when;
#else
  const struct timespec pause = {0, 10 * 1000 * 1000};
  int count = thread_count();
  for (int tries = 0; tries < 1000 && count != wanted; ++tries) {
    nanosleep(&pause, NULL);
    count = thread_count();
  }
  REQUIRE(count == wanted, "%s: %d threads, expected %d", when, count, wanted);
#endif
}
