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
    "usage: train_digits_cuda [option [value]]...\n"
    "\n"
    "Trains a 64-128-64-10 network on handwritten digits on a GPU twice, from the same weights and on the same "
    "batches:\n"
    "once with Shampoo, grafted from Adam, and once with AdamW. Prints losses, accuracies and times.\n"
    "\n"
    "  --epochs N           passes over the training images (25)\n"
    "  --batch N            images per step (64)\n"
    "  --lr X               largest learning rate of Shampoo; it falls to 0 along half a cosine (0.03)\n"
    "  --adamw-lr X         of AdamW (0.03)\n"
    "  --weight-decay X     of both, decoupled (0.1)\n"
    "  --seed N             of the first weights and of the order of the images (1)\n"
    "  --device N           which GPU (0)\n"
    "  --set KEY=VALUE      any hyper-parameter of libshampoo, by the names of docs/keys.md; may be repeated\n"
    "  --data FILE          the images (../c_mlp/data/digits.bin)\n"
    "  --gpt2               instead of the digits: times of steps with parameters in the shapes of GPT-2 and random\n"
    "                       gradients\n"
    "  --steps N            with --gpt2: steps that are timed, after ten that are not (50)\n"
    "  --layers N           with --gpt2: 12 is the smallest of the published models (12)\n"
    "  --help               this text\n";

void options_free(Options* options) { settings_free(&options->settings); }

static void set_defaults(Options* options) {
  const Options defaults = {.epochs = 25,
                            .batch = 64,
                            .lr = 0.03,
                            .adamw_lr = 0.03,
                            .weight_decay = 0.1,
                            .seed = 1,
                            .data = "../c_mlp/data/digits.bin",
                            .steps = 50,
                            .layers = 12};
  *options = defaults;
  settings_add(&options->settings, "weight_decay=0.1");
}

void options_parse(Options* options, int argc, char** argv) {
  set_defaults(options);
  for (int i = 1; i < argc; ++i) {
    const char* name = argv[i];
    if (strcmp(name, "--help") == 0) {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (strcmp(name, "--gpt2") == 0) {
      options->gpt2 = 1;
      continue;
    }
    const char* value = argv[++i];  // NULL after the last argument
    if (value == NULL) fail("%s is unknown or lacks its value; see --help", name);
    if (strcmp(name, "--epochs") == 0) {
      options->epochs = to_integer(name, value, 1, 100000);
    } else if (strcmp(name, "--batch") == 0) {
      options->batch = to_integer(name, value, 1, 100000);
    } else if (strcmp(name, "--lr") == 0) {
      options->lr = to_number(name, value);
    } else if (strcmp(name, "--adamw-lr") == 0) {
      options->adamw_lr = to_number(name, value);
    } else if (strcmp(name, "--weight-decay") == 0) {
      options->weight_decay = to_number(name, value);
      settings_add_pair(&options->settings, "weight_decay", value);
    } else if (strcmp(name, "--seed") == 0) {
      options->seed = to_integer(name, value, 0, INT_MAX);
    } else if (strcmp(name, "--device") == 0) {
      options->device = to_integer(name, value, 0, INT_MAX);
    } else if (strcmp(name, "--set") == 0) {
      settings_add(&options->settings, value);
    } else if (strcmp(name, "--data") == 0) {
      options->data = value;
    } else if (strcmp(name, "--steps") == 0) {
      options->steps = to_integer(name, value, 1, 100000);
    } else if (strcmp(name, "--layers") == 0) {
      options->layers = to_integer(name, value, 0, 1000);
    } else {
      fail("there is no option %s; see --help", name);
    }
  }
}
