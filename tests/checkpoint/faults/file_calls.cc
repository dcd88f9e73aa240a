// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/faults/file_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <utility>

namespace shampoo_test {
namespace {

thread_local FileWatch* watch = nullptr;

std::string PathOf(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), path, sizeof path);
  return length < 0 ? std::string() : std::string(path, static_cast<size_t>(length));
}

// Reports a call to the FileWatch of this thread. Then makes the call, with at most the number of bytes that
// the watch allows, unless the watch requests a failure or the result 0. Allocates nothing if the thread has no watch.
template <typename Make>
auto Intercept(const char* name, const char* path, FileCall call, Make&& make) -> decltype(make(size_t{})) {
  if (watch == nullptr) return make(call.bytes);
  const size_t bytes = call.bytes;
  call.name = name;
  if (path != nullptr) call.path = path;
  const FileFault fault = watch->Next(std::move(call));
  if (fault.error != 0) {
    errno = fault.error;
    return -1;
  }
  if (fault.returns_zero) return 0;
  return make(std::min(bytes, fault.max_bytes));
}

template <typename Make>
auto InterceptDescriptor(const char* name, int fd, FileCall call, Make&& make) {
  if (watch != nullptr) call.path = PathOf(fd);
  return Intercept(name, nullptr, std::move(call), make);
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

FileWatch::FileWatch(Handler handler) : handler_(std::move(handler)), outer_(std::exchange(watch, this)) {}

FileWatch::~FileWatch() { watch = outer_; }

FileFault FileWatch::Next(FileCall call) {
  call.number = ++calls_;
  FileWatch* const own = std::exchange(watch, nullptr);
  const int error = errno;
  const FileFault fault = handler_(call);
  errno = error;
  watch = own;
  return fault;
}

}  // namespace shampoo_test

using shampoo_test::FileCall;
using shampoo_test::Intercept;
using shampoo_test::InterceptDescriptor;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return static_cast<int>(Intercept("open", path, {.creates = (flags & O_CREAT) != 0},
                                    [=](size_t) { return syscall(SYS_openat, AT_FDCWD, path, flags, mode); }));
}

// Linux releases the descriptor even if close() fails. A simulated failure must therefore release it, too.
int close(int fd) {
  const auto result = InterceptDescriptor("close", fd, {}, [fd](size_t) { return syscall(SYS_close, fd); });
  if (result < 0 && shampoo_test::watch != nullptr) {
    const int error = errno;
    syscall(SYS_close, fd);
    errno = error;
  }
  return static_cast<int>(result);
}

ssize_t pread(int fd, void* to, size_t bytes, off_t at) {
  return InterceptDescriptor("pread", fd, {.bytes = bytes, .at = at},
                             [=](size_t max_bytes) { return syscall(SYS_pread64, fd, to, max_bytes, at); });
}

ssize_t pwrite(int fd, const void* from, size_t bytes, off_t at) {
  return InterceptDescriptor("pwrite", fd, {.data = static_cast<const char*>(from), .bytes = bytes, .at = at},
                             [=](size_t max_bytes) { return syscall(SYS_pwrite64, fd, from, max_bytes, at); });
}

int fsync(int fd) {
  return static_cast<int>(InterceptDescriptor("fsync", fd, {}, [fd](size_t) { return syscall(SYS_fsync, fd); }));
}

int sync_file_range(int fd, off64_t at, off64_t bytes, unsigned flags) {
  return static_cast<int>(InterceptDescriptor(
      "sync_file_range", fd, {}, [=](size_t) { return syscall(SYS_sync_file_range, fd, at, bytes, flags); }));
}

int fstat(int fd, struct stat* result) noexcept {
  return static_cast<int>(InterceptDescriptor("fstat", fd, {}, [=](size_t) { return syscall(SYS_fstat, fd, result); }));
}

int stat(const char* path, struct stat* result) noexcept {
  return static_cast<int>(
      Intercept("stat", path, {}, [=](size_t) { return syscall(SYS_newfstatat, AT_FDCWD, path, result, 0); }));
}

int mkdir(const char* path, mode_t mode) noexcept {
  return static_cast<int>(
      Intercept("mkdir", path, {}, [=](size_t) { return syscall(SYS_mkdirat, AT_FDCWD, path, mode); }));
}

int unlink(const char* path) noexcept {
  return static_cast<int>(
      Intercept("unlink", path, {}, [=](size_t) { return syscall(SYS_unlinkat, AT_FDCWD, path, 0); }));
}

int rename(const char* from, const char* to) noexcept {
  FileCall call;
  if (shampoo_test::watch != nullptr) call.to = to;
  return static_cast<int>(Intercept("rename", from, std::move(call),
                                    [=](size_t) { return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); }));
}

DIR* opendir(const char* path) {
  DIR* directory = nullptr;
  Intercept("opendir", path, {}, [&](size_t) {
    directory = shampoo_test::Next<DIR*(const char*)>("opendir")(path);
    return directory != nullptr ? 0 : -1;
  });
  return directory;
}

dirent* readdir(DIR* directory) {
  dirent* entry = nullptr;
  InterceptDescriptor("readdir", dirfd(directory), {}, [&](size_t) {
    entry = shampoo_test::Next<dirent*(DIR*)>("readdir")(directory);
    return 0;
  });
  return entry;
}

}  // extern "C"
