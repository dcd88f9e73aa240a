// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "disk.h"
#include "status.h"

// The parameters of each epoch are in a separate file, so that those of the previous epoch are kept. If the program is
// killed before the new state is saved, the previous state and the previous parameters are still a complete checkpoint.
enum { kName = 32 };
static void name_params(char name[kName], int epoch) { snprintf(name, kName, "parameters-%d.bin", epoch); }

// The file gets its final name only when it is complete and on the disk.
static void write_params(const char* directory, const Mlp* net, int epoch) {
  char name[kName], path[kPath];
  make_folder(directory);
  join_path(path, directory, "parameters.saving");
  FILE* file = open_file(path, "wb");
  fwrite(net->params, sizeof(real), kValues, file);
  close_file(file, path);
  sync_path(path);
  name_params(name, epoch);
  const int error = rename_in(directory, "parameters.saving", name);
  if (error != 0) fail("cannot rename %s to %s: %s", path, name, strerror(error));
}

void checkpoint_save(const char* directory, const Ranks* ranks, const WithShampoo* shampoo, const Mlp* net, int epoch) {
  if (ranks->rank == 0) write_params(directory, net, epoch);
  check(shampoo_save(&shampoo->optimizer, 1, shampoo->world, directory, NULL), "save");
  double keep;
  check(shampoo_optimizer_get(shampoo->optimizer, 0, "checkpoint_keep", &keep), "checkpoint_keep");
  if (ranks->rank == 0 && epoch > (int)keep) {
    char name[kName], path[kPath];
    name_params(name, epoch - (int)keep);  // shampoo_save() has removed the state of that epoch
    join_path(path, directory, name);
    remove(path);
  }
}

int checkpoint_load(const char* directory, const WithShampoo* shampoo, Mlp* net, int steps_per_epoch) {
  check(shampoo_load(&shampoo->optimizer, 1, shampoo->world, directory, NULL), "load");
  double steps;  // the step counter of the only group; it counts all steps, because all steps have gradients
  check(shampoo_optimizer_stat(shampoo->optimizer, "step.0", &steps), "step.0");
  const int epoch = (int)steps / steps_per_epoch;
  char name[kName], path[kPath];
  name_params(name, epoch);
  join_path(path, directory, name);
  FILE* file = open_file(path, "rb");
  if (fread(net->params, sizeof(real), kValues, file) != kValues) fail("%s is truncated", path);
  close_file(file, path);
  return epoch;
}
