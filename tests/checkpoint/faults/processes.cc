// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/faults/processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

namespace shampoo_test {

pid_t InChild(const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child > 0) return child;
  work();
  _exit(0);
}

bool WasKilled(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return false;
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

void Die() {
  kill(getpid(), SIGKILL);
  pause();
}

std::string TextFromChild(const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t child = InChild([&] {
    const std::string text = work();
    for (size_t done = 0; done < text.size();) {
      const ssize_t put = write(ends[1], text.data() + done, text.size() - done);
      if (put <= 0) _exit(1);
      done += static_cast<size_t>(put);
    }
  });
  close(ends[1]);
  std::string text;
  char part[512];
  for (ssize_t got = 0; (got = read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? text : text + "\nthe child process ended with status " + std::to_string(status);
}

}  // namespace shampoo_test
