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
    "usage: train_host [option value]...\n"
    "\n"
    "Trains a 64-128-64-10 network on handwritten digits with gradients of 16 bits, a loss scale, and checkpoints.\n"
    "SIGINT and SIGTERM end it with a checkpoint; the exit status is then 128 + the number of the signal.\n"
    "\n"
    "  --epochs N            passes over the training images (10)\n"
    "  --batch N             images per step (64)\n"
    "  --warmup N            steps in which the learning rate grows; then it falls to 0 along half a cosine (20)\n"
    "  --loss-scale N        the first one (1048576)\n"
    "  --give-up N           batches refused in a row that end the program with an error (20)\n"
    "  --checkpoints DIR     where they are written (checkpoints)\n"
    "  --checkpoint-every N  steps from one to the next (50)\n"
    "  --resume              go on from the last one; without one begin anew\n"
    "  --blas-threads N      threads of the host's own BLAS (1)\n"
    "  --log N               messages of libshampoo: 0 errors, 1 warnings too, 2 information too, 3 all (1)\n"
    "  --set KEY=VALUE       any hyper-parameter of libshampoo, by the names of docs/keys.md; may be repeated\n"
    "                        (--set lr=0.03 --set threads=2)\n"
    "  --seed N              of the first weights and of the order of the images (1)\n"
    "  --data FILE           the images (../c_mlp/data/digits.bin)\n"
    "  --broken-from N       from this batch on gradients have a NaN, as of a fault in a layer; 0: never (0)\n"
    "  --help                this text\n";

static void set_defaults(Options* options) {
  static const char* const settings[] = {"lr=0.03", "weight_decay=0.1"};
  const Options defaults = {.epochs = 10,
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
  *options = defaults;
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; ++i) settings_add(&options->settings, settings[i]);
}

static int parse_integer(Options* options, const char* name, const char* value) {
  const struct {
    const char* name;
    int* goal;
    int smallest, largest;
  } integers[] = {{"--epochs", &options->epochs, 1, 1000},
                  {"--batch", &options->batch, 1, 65535},
                  {"--warmup", &options->warmup, 0, INT_MAX},
                  {"--loss-scale", &options->loss_scale, 1, 1 << 30},
                  {"--seed", &options->seed, 0, INT_MAX},
                  {"--give-up", &options->give_up, 1, INT_MAX},
                  {"--broken-from", &options->broken_from, 0, INT_MAX},
                  {"--blas-threads", &options->blas_threads, 1, 4096},
                  {"--log", &options->log, 0, 3},
                  {"--checkpoint-every", &options->checkpoint_every, 1, INT_MAX}};
  for (size_t i = 0; i < sizeof integers / sizeof integers[0]; ++i) {
    if (strcmp(name, integers[i].name) != 0) continue;
    *integers[i].goal = to_integer(name, value, integers[i].smallest, integers[i].largest);
    return 1;
  }
  return 0;
}

void options_parse(Options* options, int argc, char** argv) {
  set_defaults(options);
  for (int i = 1; i < argc; ++i) {
    const char* name = argv[i];
    if (strcmp(name, "--help") == 0) {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (strcmp(name, "--resume") == 0) {
      options->resume = 1;
      continue;
    }
    const char* value = argv[++i];  // NULL after the last argument
    if (value == NULL) fail("%s is unknown or lacks its value; see --help", name);
    if (parse_integer(options, name, value)) continue;
    if (strcmp(name, "--set") == 0) {
      settings_add(&options->settings, value);
    } else if (strcmp(name, "--checkpoints") == 0) {
      options->checkpoints = value;
    } else if (strcmp(name, "--data") == 0) {
      options->data = value;
    } else {
      fail("there is no option %s; see --help", name);
    }
  }
}

void options_free(Options* options) { settings_free(&options->settings); }
