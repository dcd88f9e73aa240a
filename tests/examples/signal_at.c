// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A library for LD_PRELOAD. The library counts a program's calls of mkdir, fsync, rename, unlink and rmdir, from 1.
// With it, a test can send signals to the program, or kill the program, before any of these calls. Environment
// variables:
//   SIGNAL_AT      number of the call before which the process sends signals to itself
//   SIGNAL_NUMBER  numbers of these signals, separated by spaces
//   CALLS          file to which the name and the paths of each call are appended
#define _GNU_SOURCE  // RTLD_NEXT
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int (*PathCall)(const char*);
typedef int (*ModeCall)(const char*, mode_t);
typedef int (*NamesCall)(const char*, const char*);
typedef int (*FileCall)(int);

static void count_call(const char* name, const char* path, const char* to) {
  static int calls;
  const char* at = getenv("SIGNAL_AT");
  const char* number = getenv("SIGNAL_NUMBER");
  FILE* file = getenv("CALLS") != NULL ? fopen(getenv("CALLS"), "a") : NULL;
  if (file != NULL) {
    fprintf(file, "%s %s%s%s\n", name, path, to != NULL ? " " : "", to != NULL ? to : "");
    fclose(file);
  }
  if (at == NULL || number == NULL || ++calls != atoi(at)) return;
  for (char* end; *number != '\0'; number = end) raise((int)strtol(number, &end, 10));
}

// Declares `next`, a pointer to the C library's function `name`, and counts the call. memcpy copies the pointer because
// ISO C does not allow a cast from void* to a function pointer.
#define NEXT(type, name, path, to)             \
  type next;                                   \
  void* const symbol = dlsym(RTLD_NEXT, name); \
  memcpy(&next, &symbol, sizeof next);         \
  count_call(name, path, to)

int mkdir(const char* path, mode_t mode) {
  NEXT(ModeCall, "mkdir", path, NULL);
  return next(path, mode);
}

int fsync(int descriptor) {
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  if (readlink(link, path, sizeof path - 1) < 0) path[0] = '\0';
  NEXT(FileCall, "fsync", path, NULL);
  return next(descriptor);
}

int rename(const char* from, const char* to) {
  NEXT(NamesCall, "rename", from, to);
  return next(from, to);
}

int unlink(const char* path) {
  NEXT(PathCall, "unlink", path, NULL);
  return next(path);
}

int rmdir(const char* path) {
  NEXT(PathCall, "rmdir", path, NULL);
  return next(path);
}
