// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L  // mkdir
#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "status.h"

// A name for each epoch: parameters and state are of the same one, whenever the program is killed.
static void name_params(char* path, size_t size, const char* directory, int epoch) {
  const int length = snprintf(path, size, "%s/parameters-%d.bin", directory, epoch);
  if (length < 0 || (size_t)length >= size) fail("--checkpoint %s: the path is too long", directory);
}

void checkpoint_save(const char* directory, const Ranks* ranks, const WithShampoo* shampoo, const Mlp* net, int epoch) {
  if (ranks->rank == 0) {
    char path[4096];
    name_params(path, sizeof path, directory, epoch);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) fail("cannot make %s: %s", directory, strerror(errno));
    FILE* file = open_file(path, "wb");
    fwrite(net->params, sizeof(real), kValues, file);
    close_file(file, path);
  }
  check(shampoo_save(&shampoo->optimizer, 1, shampoo->world, directory, NULL), "save");
  double keep;
  check(shampoo_optimizer_get(shampoo->optimizer, 0, "checkpoint_keep", &keep), "checkpoint_keep");
  if (ranks->rank == 0 && epoch > (int)keep) {
    char path[4096];
    name_params(path, sizeof path, directory, epoch - (int)keep);  // of a checkpoint that is gone
    remove(path);
  }
}

int checkpoint_load(const char* directory, const WithShampoo* shampoo, Mlp* net, int steps_per_epoch) {
  check(shampoo_load(&shampoo->optimizer, 1, shampoo->world, directory, NULL), "load");
  double steps;
  check(shampoo_optimizer_stat(shampoo->optimizer, "step.0", &steps), "step.0");
  const int epoch = (int)steps / steps_per_epoch;
  char path[4096];
  name_params(path, sizeof path, directory, epoch);
  FILE* file = open_file(path, "rb");
  if (fread(net->params, sizeof(real), kValues, file) != kValues) fail("%s is cut off", path);
  close_file(file, path);
  return epoch;
}
