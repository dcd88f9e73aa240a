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
    "usage: train_digits [option value]...\n"
    "\n"
    "Trains a 64-128-64-10 network on handwritten digits twice, from the same weights and on the same batches: once\n"
    "with Shampoo, grafted from Adam, and once with AdamW. Prints losses and accuracies, and draws them.\n"
    "\n"
    "  --epochs N           passes over the training images (25)\n"
    "  --batch N            images per step (64)\n"
    "  --lr X               learning rate of Shampoo (0.03)\n"
    "  --adamw-lr X         learning rate of AdamW (0.03)\n"
    "  --weight-decay X     of both, decoupled (0.1)\n"
    "  --schedule NAME      cosine: the learning rates fall to 0 along half a cosine (default); constant\n"
    "  --threads N          threads of a Shampoo step; 0: all processors (0)\n"
    "  --seed N             of the first weights and of the order of the images (1)\n"
    "  --set KEY=VALUE      any hyper-parameter of libshampoo, by the names of docs/keys.md; may be repeated\n"
    "  --data FILE          the images (data/digits.bin)\n"
    "  --csv FILE           receives the curves as numbers (curves.csv); \"\": not written\n"
    "  --svg FILE           receives the curves as a picture (curves.svg); \"\": not written\n"
    "  --help               this text\n"
    "\n"
    "To compare with recorded losses, as check_reference.py does:\n"
    "  --init FILE          first weights: 17226 float64, W1 b1 W2 b2 W3 b3, row-major\n"
    "  --batches FILE       int32 numbers of training images, --batch of them per step; all of it is one epoch\n"
    "  --step-losses FILE   receives the loss of every step before the step, in full precision\n";

void options_free(Options* options) { settings_free(&options->settings); }

static void set_defaults(Options* options) {
  const Options defaults = {.epochs = 25,
                            .batch = 64,
                            .adamw_lr = 0.03,
                            .weight_decay = 0.1,
                            .cosine = 1,
                            .seed = 1,
                            .data = "data/digits.bin",
                            .csv = "curves.csv",
                            .svg = "curves.svg"};
  *options = defaults;
  settings_add(&options->settings, "lr=0.03");
  settings_add(&options->settings, "weight_decay=0.1");
}

static int to_cosine(const char* text) {
  if (strcmp(text, "cosine") != 0 && strcmp(text, "constant") != 0) {
    fail("--schedule: \"%s\" is neither cosine nor constant", text);
  }
  return strcmp(text, "cosine") == 0;
}

void options_parse(Options* options, int argc, char** argv) {
  set_defaults(options);
  for (int i = 1; i < argc; i += 2) {
    const char* name = argv[i];
    const char* value = argv[i + 1];  // NULL after the last argument
    if (strcmp(name, "--help") == 0) {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (value == NULL) fail("%s is unknown or lacks its value; see --help", name);
    if (strcmp(name, "--epochs") == 0) {
      options->epochs = to_integer(name, value, 1, INT_MAX);
    } else if (strcmp(name, "--batch") == 0) {
      options->batch = to_integer(name, value, 1, INT_MAX);
    } else if (strcmp(name, "--lr") == 0) {
      settings_add_pair(&options->settings, "lr", value);
    } else if (strcmp(name, "--adamw-lr") == 0) {
      options->adamw_lr = to_number(name, value);
    } else if (strcmp(name, "--weight-decay") == 0) {
      options->weight_decay = to_number(name, value);
      settings_add_pair(&options->settings, "weight_decay", value);
    } else if (strcmp(name, "--schedule") == 0) {
      options->cosine = to_cosine(value);
    } else if (strcmp(name, "--threads") == 0) {
      settings_add_pair(&options->settings, "threads", value);
    } else if (strcmp(name, "--seed") == 0) {
      options->seed = to_integer(name, value, 0, INT_MAX);
    } else if (strcmp(name, "--set") == 0) {
      settings_add(&options->settings, value);
    } else if (strcmp(name, "--data") == 0) {
      options->data = value;
    } else if (strcmp(name, "--csv") == 0) {
      options->csv = value;
    } else if (strcmp(name, "--svg") == 0) {
      options->svg = value;
    } else if (strcmp(name, "--init") == 0) {
      options->init = value;
    } else if (strcmp(name, "--batches") == 0) {
      options->batches = value;
    } else if (strcmp(name, "--step-losses") == 0) {
      options->step_losses = value;
    } else {
      fail("there is no option %s; see --help", name);
    }
  }
}
