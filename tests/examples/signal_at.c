// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// To be preloaded (LD_PRELOAD): the process gets the signal SIGNAL_NUMBER at its SIGNAL_AT-th call, counted from 1, of
// those below, which is before the call is done. So a test can end a program at each moment of its work with files.
#define _GNU_SOURCE  // RTLD_NEXT
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int (*PathCall)(const char*);
typedef int (*ModeCall)(const char*, mode_t);
typedef int (*NamesCall)(const char*, const char*);
typedef int (*FileCall)(int);

static void count_call(void) {
  static int calls;
  const char* at = getenv("SIGNAL_AT");
  const char* number = getenv("SIGNAL_NUMBER");
  if (at != NULL && number != NULL && ++calls == atoi(at)) raise(atoi(number));
}

// A pointer to a function is copied out of one to void, as ISO C has no cast for it.
#define NEXT(type, name)                       \
  type next;                                   \
  void* const symbol = dlsym(RTLD_NEXT, name); \
  memcpy(&next, &symbol, sizeof next);         \
  count_call()

int mkdir(const char* path, mode_t mode) {
  NEXT(ModeCall, "mkdir");
  return next(path, mode);
}

int fsync(int descriptor) {
  NEXT(FileCall, "fsync");
  return next(descriptor);
}

int rename(const char* from, const char* to) {
  NEXT(NamesCall, "rename");
  return next(from, to);
}

int unlink(const char* path) {
  NEXT(PathCall, "unlink");
  return next(path);
}

int rmdir(const char* path) {
  NEXT(PathCall, "rmdir");
  return next(path);
}
