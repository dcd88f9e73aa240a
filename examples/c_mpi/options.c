// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <limits.h>
#include <stddef.h>

#include "check.h"

static const char kAbout[] =
    "Trains a 64-128-64-10 network on handwritten digits with Shampoo, on all ranks together.\n";

static const char* const kShards[] = {"none", "local", "gather", NULL};

void options_parse(Options* options, int argc, char** argv, const Option* more) {
  *options = (Options){.epochs = 25, .batch = 64, .seed = 1, .data = "../c_mlp/data/digits.bin"};
  const Option table[] = {
      option_choice("--shards", &options->shards, kShards,
                    "none: each rank holds all parameters; local: each rank holds a chunk of every parameter, and each "
                    "chunk is a separate tensor; gather: chunks as with local, but each block is gathered at its "
                    "owner"),
      option_flag("--fsdp", &options->shards, 1, "the same as --shards local"),
      option_integer("--epochs", &options->epochs, 1, INT_MAX, "passes over the training images"),
      option_integer("--batch", &options->batch, 1, INT_MAX, "images per step, on all ranks together"),
      option_integer("--seed", &options->seed, 0, INT_MAX,
                     "seed of the initial weights and of the order of the images"),
      settings_option(&options->settings),
      option_text("--checkpoint", "DIR", &options->checkpoint,
                  "saves the parameters and the state of the optimizer in DIR after every epoch"),
      option_flag("--resume", &options->resume, 1,
                  "continues from the checkpoint in DIR; --shards and the number of ranks may differ from those of the "
                  "run that saved it, unless this run or that run uses --shards local"),
      option_integer("--stop-after", &options->stop_after, 0, INT_MAX,
                     "ends the run after epoch N; a run with --resume can continue it; 0: runs all epochs"),
      option_text("--data", "FILE", &options->data, "file with the images"),
      {0}};
  command_line_parse(argc, argv, kAbout, table, more);
  if (options->resume && options->checkpoint == NULL) fail("--resume needs --checkpoint DIR, the folder to read from");

  // Sets the hyper-parameters of c_mlp, except that each rank uses one thread, and that blocks have at most 64 rows and
  // columns. W1 and W2 then have two equal blocks each, so that each of four ranks has work.
  settings_put_first(&options->settings, "lr", 0.03);
  settings_put_first(&options->settings, "weight_decay", 0.1);
  settings_put_first(&options->settings, "threads", 1);
  settings_put_first(&options->settings, "max_preconditioner_dim", 64);
  if (options->shards)
    settings_add(&options->settings, options->shards == 1 ? "shard_mode=local" : "shard_mode=gather");
}
