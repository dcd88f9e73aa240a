// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "numbers.h"

static const char kHelp[] =
    "Trains a 64-128-64-10 network on handwritten digits with Shampoo, on all ranks together.\n"
    "\n"
    "  --shards MODE        none: each rank holds all parameters; otherwise each holds a chunk of every one: local\n"
    "                       steps chunks as tensors of their own, gather brings whole blocks together (none)\n"
    "  --fsdp               the same as --shards local\n"
    "  --epochs N           passes over the training images (25)\n"
    "  --batch N            images per step, of all ranks together (64)\n"
    "  --seed N             of the first weights and of the order of the images (1)\n"
    "  --set KEY=VALUE      any hyper-parameter of libshampoo, by the names of docs/keys.md; may be repeated\n"
    "  --checkpoint DIR     saves the state of the optimizer and the parameters there, after every epoch\n"
    "  --resume             goes on from there, with any number of ranks, any --shards but local\n"
    "  --stop-after N       ends after N epochs, for a run with --resume to go on\n"
    "  --data FILE          the images (../c_mlp/data/digits.bin)\n"
    "  --help               this text\n";

void options_free(Options* options) { settings_free(&options->settings); }

static void set_defaults(Options* options) {
  const Options defaults = {.epochs = 25, .batch = 64, .seed = 1, .data = "../c_mlp/data/digits.bin"};
  // Those of c_mlp, but: one thread a rank, as the ranks are many already; and blocks of 64, by which W1 and W2 are two
  // equal blocks each, enough for four ranks.
  const char* const settings[] = {"lr=0.03", "weight_decay=0.1", "threads=1", "max_preconditioner_dim=64"};
  *options = defaults;
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; ++i) settings_add(&options->settings, settings[i]);
}

// Whether there are chunks is the trainer's business; what becomes of them is a key of libshampoo.
static void set_shards(Options* options, const char* mode) {
  options->shards = strcmp(mode, "none") != 0;
  if (!options->shards) return;
  if (strcmp(mode, "local") != 0 && strcmp(mode, "gather") != 0) fail("--shards %s: it is none, local or gather", mode);
  settings_add_pair(&options->settings, "shard_mode", mode);
}

void options_parse(Options* options, int argc, char** argv) {
  set_defaults(options);
  for (int i = 1; i < argc; ++i) {
    const char* name = argv[i];
    if (strcmp(name, "--help") == 0) {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (strcmp(name, "--fsdp") == 0) {
      set_shards(options, "local");
      continue;
    }
    if (strcmp(name, "--resume") == 0) {
      options->resume = 1;
      continue;
    }
    const char* value = argv[++i];  // NULL after the last argument
    if (value == NULL) fail("%s is unknown or lacks its value; see --help", name);
    if (strcmp(name, "--epochs") == 0) {
      options->epochs = to_integer(name, value, 1, INT_MAX);
    } else if (strcmp(name, "--batch") == 0) {
      options->batch = to_integer(name, value, 1, INT_MAX);
    } else if (strcmp(name, "--seed") == 0) {
      options->seed = to_integer(name, value, 0, INT_MAX);
    } else if (strcmp(name, "--checkpoint") == 0) {
      options->checkpoint = value;
    } else if (strcmp(name, "--stop-after") == 0) {
      options->stop_after = to_integer(name, value, 1, INT_MAX);
    } else if (strcmp(name, "--shards") == 0) {
      set_shards(options, value);
    } else if (strcmp(name, "--set") == 0) {
      settings_add(&options->settings, value);
    } else if (strcmp(name, "--data") == 0) {
      options->data = value;
    } else {
      fail("there is no option %s; see --help", name);
    }
  }
  if (options->resume && options->checkpoint == NULL) fail("--resume needs --checkpoint DIR, from where to go on");
}
