// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L  // opendir, scandir, lstat
#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "disk.h"
#include "progress.h"
#include "status.h"

static const char kMagic[8] = "c_host2\n";  // identifies the format of trainer.bin
// The name of a checkpoint folder begins with its state: kWhole if it is complete, kRemoving while it is removed.
static const char kWhole[] = "step", kRemoving[] = "removing";

enum { kName = 32 };
static void name_step(char name[kName], const char* state, int step) { snprintf(name, kName, "%s-%06d", state, step); }

// If `entry` is a folder with the name that name_step() makes for this state and some step, returns the step. Otherwise
// returns -1, for example for a file of another program.
static int step_of(const char* folder, const char* state, const char* entry) {
  char name[kName], path[kPath];
  struct stat about;
  const char* dash = strrchr(entry, '-');
  const int step = dash != NULL ? (int)strtol(dash + 1, NULL, 10) : -1;
  name_step(name, state, step);
  if (step < 0 || strcmp(name, entry) != 0) return -1;
  join_path(path, folder, name);
  return lstat(path, &about) == 0 && S_ISDIR(about.st_mode) ? step : -1;
}

static int descending(const void* a, const void* b) { return *(const int*)b - *(const int*)a; }

// Returns the steps of all checkpoint folders in this state, in descending order. The caller frees the array.
static int* list_steps(const char* folder, const char* state, int* count) {
  struct dirent** entries;
  const int all = scandir(folder, &entries, NULL, NULL);
  int* steps = allocate((size_t)(all > 0 ? all : 1), sizeof *steps);
  *count = 0;
  for (int i = 0; i < all; ++i) {
    const int step = step_of(folder, state, entries[i]->d_name);
    if (step >= 0) steps[(*count)++] = step;
    free(entries[i]);
  }
  if (all >= 0) free(entries);
  qsort(steps, (size_t)*count, sizeof *steps, descending);
  return steps;
}

int checkpoint_last(const char* folder) {
  int count;
  int* steps = list_steps(folder, kWhole, &count);
  const int last = count > 0 ? steps[0] : -1;
  free(steps);
  return last;
}

// Prints a warning about a file or folder that cannot be removed. The training continues, because leftovers do no harm.
static void report_left(const char* path, int error) {
  clear_progress();
  fprintf(stderr, "%s: cannot remove %s: %s\n", program_name, path, strerror(error));
}

static void remove_folder(const char* path) {
  DIR* entries = opendir(path);
  if (entries == NULL && errno != ENOENT) report_left(path, errno);
  if (entries == NULL) return;
  for (struct dirent* entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
    char file[kPath];
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    join_path(file, path, entry->d_name);
    if (unlink(file) != 0) report_left(file, errno);
  }
  closedir(entries);
  if (rmdir(path) != 0) report_left(path, errno);
}

// Removes all checkpoints except the last two. Each folder is renamed before its files are removed, so that an
// interrupted removal does not leave an incomplete folder with the name of a checkpoint.
static void remove_old(const char* folder) {
  char name[kName], removing[kName], path[kPath];
  int count;
  int* steps = list_steps(folder, kWhole, &count);
  for (int i = 2; i < count; ++i) {
    name_step(name, kWhole, steps[i]);
    name_step(removing, kRemoving, steps[i]);
    const int error = rename_in(folder, name, removing);
    join_path(path, folder, name);
    if (error != 0) report_left(path, error);
  }
  free(steps);
  steps = list_steps(folder, kRemoving, &count);
  for (int i = 0; i < count; ++i) {
    name_step(removing, kRemoving, steps[i]);
    join_path(path, folder, removing);
    remove_folder(path);
  }
  free(steps);
}

void checkpoint_save(const char* folder, const Trainer* trainer, const Network* net, const WithShampoo* shampoo) {
  char saving[kPath], path[kPath], name[kName];
  make_folder(folder);
  join_path(saving, folder, "saving");
  remove_folder(saving);  // the folder exists if the program was killed during a save
  make_folder(saving);

  join_path(path, saving, "trainer.bin");
  FILE* file = open_file(path, "wb");
  fwrite(kMagic, sizeof kMagic, 1, file);
  fwrite(trainer, sizeof *trainer, 1, file);
  fwrite(net->params, sizeof(float), kValues, file);
  close_file(file, path);
  sync_path(path);
  check(shampoo_save(&shampoo->optimizer, 1, NULL, saving, NULL), "save");

  // The folder gets the name of a checkpoint only now, because it is complete only now.
  sync_path(saving);
  name_step(name, kWhole, trainer->step);
  const int error = rename_in(folder, "saving", name);
  if (error != 0) fail("cannot rename %s to %s: %s", saving, name, strerror(error));
  remove_old(folder);
}

void checkpoint_load(const char* folder, int step, Trainer* trainer, Network* net, WithShampoo* shampoo) {
  char checkpoint[kPath], path[kPath], name[kName], magic[sizeof kMagic];
  Trainer saved;
  name_step(name, kWhole, step);
  join_path(checkpoint, folder, name);
  join_path(path, checkpoint, "trainer.bin");
  FILE* file = open_file(path, "rb");
  if (fread(magic, sizeof magic, 1, file) != 1 || memcmp(magic, kMagic, sizeof magic) != 0 ||
      fread(&saved, sizeof saved, 1, file) != 1 || fread(net->params, sizeof(float), kValues, file) != kValues) {
    fail("%s was not written by this program, or is truncated", path);
  }
  close_file(file, path);
  if (saved.seed != trainer->seed || saved.batch != trainer->batch || saved.epochs != trainer->epochs ||
      saved.warmup != trainer->warmup) {
    fail("%s was saved with --seed %d --batch %d --epochs %d --warmup %d; pass these values", checkpoint,
         (int)saved.seed, (int)saved.batch, (int)saved.epochs, (int)saved.warmup);
  }
  if (saved.train_count != trainer->train_count || saved.data_hash != trainer->data_hash) {
    fail(
        "%s was saved with other images than those of --data: %d training images, and --data has %d; pass the same "
        "--data",
        checkpoint, (int)saved.train_count, (int)trainer->train_count);
  }
  *trainer = saved;
  trainer->rejected_in_a_row = 0;  // the user may have fixed the cause of the rejections
  // Set lr and gradient_scale to their values in the checkpoint, because shampoo_load() warns about different values.
  with_shampoo_prepare(shampoo, trainer_share(trainer), trainer->loss_scale);
  check(shampoo_load(&shampoo->optimizer, 1, NULL, checkpoint, NULL), "load");
}
