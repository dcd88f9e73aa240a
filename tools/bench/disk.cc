// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/disk.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tools/bench/fail.h"

extern char** environ;

namespace bench {
namespace {

double TimeDd(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"dd", "bs=8M", "status=none"});
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  int status = -1;
  if (posix_spawnp(&child, "dd", nullptr, nullptr, words.data(), environ) != 0)
    Fail("cannot start dd: expected the program dd in a folder of PATH");
  if (waitpid(child, &status, 0) != child || status != 0) Fail("dd failed with the argument " + arguments.back());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) Fail("cannot open " + path);
  return fd;
}

}  // namespace

double TimeDdWrite(const std::string& path, int64_t bytes) {
  return TimeDd({"if=/dev/zero", "conv=fsync", "iflag=count_bytes", "count=" + std::to_string(bytes), "of=" + path});
}

double TimeDdRead(const std::vector<std::string>& paths) {
  double seconds = 0;
  for (const std::string& path : paths) seconds += TimeDd({"of=/dev/null", "if=" + path});
  return seconds;
}

void Sync(const std::string& directory) {
  const int fd = Open(directory);
  if (syncfs(fd) != 0) Fail("cannot sync " + directory);
  close(fd);
}

void DropCache(const std::string& path) {
  const int fd = Open(path);
  if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) Fail("cannot drop the cache of " + path);
  close(fd);
}

}  // namespace bench
