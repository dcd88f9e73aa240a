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
    "usage: train_conv [option value]...\n"
    "\n"
    "Trains a small convolutional network on handwritten digits and prints losses and accuracies.\n"
    "\n"
    "  --optimizer NAME     shampoo (default), sgd (momentum 0.9, Nesterov) or adamw\n"
    "  --lr X               learning rate (shampoo 0.03, sgd 0.1, adamw 0.02)\n"
    "  --weight-decay X     decoupled (1e-4)\n"
    "  --schedule NAME      cosine: the learning rate falls to 0 along half a cosine (default); constant\n"
    "  --epochs N           passes over the training images (10)\n"
    "  --batch N            images per step (64)\n"
    "  --seed N             of the first weights and of the order of the images (1)\n"
    "  --threads N          threads of a Shampoo step; 0: all processors (1)\n"
    "  --set KEY=VALUE      any hyper-parameter of libshampoo, by the names of docs/keys.md; may be repeated\n"
    "  --evaluate-every N   steps from one look at the losses to the next; 0: once per epoch (0)\n"
    "  --target X           tells when the training loss first was at or below this (0.1)\n"
    "  --data FILE          the images (../c_mlp/data/digits.bin)\n"
    "  --csv FILE           receives a row for every look at the losses (not written)\n"
    "  --help               this text\n"
    "\n"
    "Exit status: 0; 1 after a mistake, which it names; 2 if the training diverged.\n";

const char* const method_names[kMethods] = {"shampoo", "sgd", "adamw"};
static const double kUsualRates[kMethods] = {0.03, 0.1, 0.02};

static Method to_method(const char* text) {
  for (int m = 0; m < kMethods; ++m) {
    if (strcmp(text, method_names[m]) == 0) return (Method)m;
  }
  fail("--optimizer: \"%s\" is none of shampoo, sgd and adamw", text);
  return kMethods;
}

static int to_cosine(const char* text) {
  if (strcmp(text, "cosine") != 0 && strcmp(text, "constant") != 0) {
    fail("--schedule: \"%s\" is neither cosine nor constant", text);
  }
  return strcmp(text, "cosine") == 0;
}

static void parse_one(Options* options, const char* name, const char* value) {
  if (strcmp(name, "--optimizer") == 0) {
    options->method = to_method(value);
  } else if (strcmp(name, "--lr") == 0) {
    options->lr = to_number(name, value);
  } else if (strcmp(name, "--weight-decay") == 0) {
    options->weight_decay = to_number(name, value);
  } else if (strcmp(name, "--schedule") == 0) {
    options->cosine = to_cosine(value);
  } else if (strcmp(name, "--epochs") == 0) {
    options->epochs = to_integer(name, value, 1, INT_MAX);
  } else if (strcmp(name, "--batch") == 0) {
    options->batch = to_integer(name, value, 1, INT_MAX);
  } else if (strcmp(name, "--seed") == 0) {
    options->seed = to_integer(name, value, 0, INT_MAX);
  } else if (strcmp(name, "--threads") == 0) {
    options->threads = to_integer(name, value, 0, INT_MAX);
  } else if (strcmp(name, "--set") == 0) {
    settings_add(&options->settings, value);
  } else if (strcmp(name, "--evaluate-every") == 0) {
    options->evaluate_every = to_integer(name, value, 0, INT_MAX);
  } else if (strcmp(name, "--target") == 0) {
    options->target_loss = to_number(name, value);
  } else if (strcmp(name, "--data") == 0) {
    options->data = value;
  } else if (strcmp(name, "--csv") == 0) {
    options->csv = value;
  } else {
    fail("there is no option %s; see --help", name);
  }
}

void options_free(Options* options) { settings_free(&options->settings); }

void options_parse(Options* options, int argc, char** argv) {
  const Options defaults = {.method = kShampoo,
                            .lr = -1,
                            .weight_decay = 1e-4,
                            .cosine = 1,
                            .epochs = 10,
                            .batch = 64,
                            .seed = 1,
                            .threads = 1,
                            .target_loss = 0.1,
                            .data = "../c_mlp/data/digits.bin"};
  *options = defaults;
  for (int i = 1; i < argc; i += 2) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (argv[i + 1] == NULL) fail("%s is unknown or lacks its value; see --help", argv[i]);
    parse_one(options, argv[i], argv[i + 1]);
  }
  if (options->lr < 0) options->lr = kUsualRates[options->method];
  if (options->settings.count > 0 && options->method != kShampoo) {
    fail("--set is for --optimizer shampoo, not for %s", method_names[options->method]);
  }
}
