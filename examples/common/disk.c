// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L  // mkdir, fsync
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

void join_path(char path[kPath], const char* folder, const char* name) {
  const int length = snprintf(path, kPath, "%s/%s", folder, name);
  if (length < 0 || length >= kPath)
    fail("%s/%s: the path is too long; expected at most %d bytes", folder, name, kPath - 1);
}

void make_folder(const char* path) {
  char parent[kPath];
  if (mkdir(path, 0777) == 0) {
    join_path(parent, path, "..");
    sync_path(parent);
  } else if (errno != EEXIST) {
    fail("cannot create %s: %s", path, strerror(errno));
  }
}

void sync_path(const char* path) {
  const int descriptor = open(path, O_RDONLY);
  if (descriptor < 0 || fsync(descriptor) != 0) fail("cannot sync %s: %s", path, strerror(errno));
  close(descriptor);
}

int rename_in(const char* folder, const char* from, const char* to) {
  char old_path[kPath], new_path[kPath];
  join_path(old_path, folder, from);
  join_path(new_path, folder, to);
  if (rename(old_path, new_path) != 0) return errno;
  sync_path(folder);
  return 0;
}
