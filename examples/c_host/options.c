// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <limits.h>
#include <stddef.h>

static const char kAbout[] =
    "Trains a 64-128-64-10 network on handwritten digits with 16-bit gradients, a loss scale, and checkpoints.\n"
    "On SIGINT or SIGTERM, the program saves a checkpoint and exits with status 128 + the number of the signal.\n";

void options_parse(Options* options, int argc, char** argv) {
  *options = (Options){.epochs = 10,
                       .batch = 64,
                       .warmup = 20,
                       .seed = 1,
                       .give_up = 20,
                       .blas_threads = 1,
                       .log = 1,
                       .checkpoint_every = 50,
                       .loss_scale = 1 << 20,
                       .checkpoints = "checkpoints",
                       .data = "../c_mlp/data/digits.bin"};
  const Option table[] = {
      option_integer("--epochs", &options->epochs, 1, 1000, "passes over the training images"),
      option_integer("--batch", &options->batch, 1, 65535, "images per step"),
      option_integer("--warmup", &options->warmup, 0, INT_MAX,
                     "steps in which the learning rate grows; then it falls to 0 along half a cosine"),
      option_integer("--loss-scale", &options->loss_scale, 1, 1 << 30, "initial loss scale"),
      option_integer("--give-up", &options->give_up, 1, INT_MAX,
                     "exit with an error after this number of rejected batches in a row"),
      option_text("--checkpoints", "DIR", &options->checkpoints, "folder of the checkpoints"),
      option_integer("--checkpoint-every", &options->checkpoint_every, 1, INT_MAX, "steps between checkpoints"),
      option_flag("--resume", &options->resume, 1, "continue from the last checkpoint, if there is one"),
      option_integer("--blas-threads", &options->blas_threads, 1, 4096, "threads of the program's own BLAS"),
      option_integer("--log", &options->log, 0, 3,
                     "print messages of libshampoo up to this level: 0 errors, 1 warnings, 2 information, 3 debugging"),
      settings_option(&options->settings),
      option_integer("--seed", &options->seed, 0, INT_MAX,
                     "seed of the initial weights and of the order of the images"),
      option_text("--data", "FILE", &options->data, "the images"),
      option_integer("--broken-from", &options->broken_from, 0, INT_MAX,
                     "simulates a fault in a layer: the gradient has a NaN from batch N on; 0: never"),
      {0}};
  command_line_parse(argc, argv, kAbout, table, NULL);
  settings_put_first(&options->settings, "lr", 0.03);
  settings_put_first(&options->settings, "weight_decay", 0.1);
}
