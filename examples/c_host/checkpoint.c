// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L  // mkdir, opendir, fsync
#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "status.h"

enum { kPath = 4096 };
static const char kMagic[8] = "c_host1\n";  // so that another file is noticed

static void join(char path[kPath], const char* folder, const char* name) {
  const int length = snprintf(path, kPath, "%s/%s", folder, name);
  if (length < 0 || length >= kPath) fail("--checkpoints %s: the path is too long", folder);
}

static void name_step(char path[kPath], const char* folder, int step) {
  char name[32];
  snprintf(name, sizeof name, "step-%06d", step);
  join(path, folder, name);
}

static void make_folder(const char* path) {
  if (mkdir(path, 0777) != 0 && errno != EEXIST) fail("cannot make %s: %s", path, strerror(errno));
}

// Waits until a file, or the names in a folder, are on the disk.
static void sync_path(const char* path) {
  const int descriptor = open(path, O_RDONLY);
  if (descriptor < 0 || fsync(descriptor) != 0) fail("cannot sync %s: %s", path, strerror(errno));
  close(descriptor);
}

static void remove_folder(const char* path) {
  DIR* entries = opendir(path);
  if (entries == NULL) return;
  for (struct dirent* entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
    char file[kPath];
    join(file, path, entry->d_name);
    unlink(file);  // refuses "." and ".."
  }
  closedir(entries);
  rmdir(path);
}

// The largest step below `limit` that has a checkpoint, or -1.
static int newest_below(const char* folder, int limit) {
  int newest = -1;
  DIR* entries = opendir(folder);
  if (entries == NULL) return -1;
  for (struct dirent* entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
    int step, end = 0;
    if (sscanf(entry->d_name, "step-%d%n", &step, &end) != 1 || entry->d_name[end] != '\0') continue;
    if (step < limit && step > newest) newest = step;
  }
  closedir(entries);
  return newest;
}

int checkpoint_last(const char* folder) { return newest_below(folder, INT_MAX); }

void checkpoint_save(const char* folder, const Trainer* trainer, const Network* net, const WithShampoo* shampoo) {
  char saving[kPath], path[kPath];
  make_folder(folder);
  join(saving, folder, "saving");
  remove_folder(saving);  // of a save that was killed
  make_folder(saving);

  join(path, saving, "trainer.bin");
  FILE* file = open_file(path, "wb");
  fwrite(kMagic, sizeof kMagic, 1, file);
  fwrite(trainer, sizeof *trainer, 1, file);
  fwrite(net->params, sizeof(float), kValues, file);
  close_file(file, path);
  sync_path(path);
  check(shampoo_save(&shampoo->optimizer, 1, NULL, saving, NULL), "save");

  // With this name it exists, and not before: parameters and states of one step, or nothing.
  sync_path(saving);
  name_step(path, folder, trainer->step);
  if (rename(saving, path) != 0) fail("cannot rename %s to %s: %s", saving, path, strerror(errno));
  sync_path(folder);

  const int before = newest_below(folder, trainer->step);
  for (int old; (old = newest_below(folder, before)) >= 0;) {
    name_step(path, folder, old);
    remove_folder(path);
  }
}

void checkpoint_load(const char* folder, int step, Trainer* trainer, Network* net, WithShampoo* shampoo) {
  char checkpoint[kPath], path[kPath], magic[sizeof kMagic];
  Trainer saved;
  name_step(checkpoint, folder, step);
  join(path, checkpoint, "trainer.bin");
  FILE* file = open_file(path, "rb");
  if (fread(magic, sizeof magic, 1, file) != 1 || memcmp(magic, kMagic, sizeof magic) != 0 ||
      fread(&saved, sizeof saved, 1, file) != 1 || fread(net->params, sizeof(float), kValues, file) != kValues) {
    fail("%s was not written by this program, or is cut off", path);
  }
  close_file(file, path);
  if (saved.seed != trainer->seed || saved.batch != trainer->batch || saved.epochs != trainer->epochs ||
      saved.warmup != trainer->warmup) {
    fail("%s is of --seed %d --batch %d --epochs %d --warmup %d: give the same to go on", checkpoint, (int)saved.seed,
         (int)saved.batch, (int)saved.epochs, (int)saved.warmup);
  }
  *trainer = saved;
  // As it was at the save: a load warns of hyper-parameters that differ.
  with_shampoo_prepare(shampoo, trainer_share(trainer), trainer->loss_scale);
  check(shampoo_load(&shampoo->optimizer, 1, NULL, checkpoint, NULL), "load");
}
