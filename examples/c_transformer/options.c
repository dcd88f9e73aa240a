// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L  // sysconf
#include "options.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "numbers.h"

static const char kHelp[] =
    "usage: train_text [option [value]]...\n"
    "\n"
    "Trains a small transformer to predict the next character of a text. Prints losses and times, and draws them.\n"
    "\n"
    "  --optimizer NAME     shampoo, grafted from Adam (default), or adamw\n"
    "  --compare            instead of that: AdamW and Shampoo, from the same weights and on the same batches\n"
    "  --compare-frequencies  the same with three kinds of Shampoo: new inverse roots every 1, 10 and 50 steps\n"
    "  --search             instead of that: both optimizers with five learning rates each\n"
    "\n"
    "  --steps N            (300)\n"
    "  --warmup N           steps in which the learning rate rises; then it falls to 0 along half a cosine (30)\n"
    "  --every N            steps between two looks at the validation loss; 0: a fifteenth of all (0)\n"
    "  --batch N            sequences in a step (32)\n"
    "  --context N          characters of a sequence (128)\n"
    "  --width N            of the residual stream (192)\n"
    "  --heads N            of attention; divides the width (4)\n"
    "  --layers N           (3)\n"
    "  --lr X               largest learning rate of Shampoo (0.008)\n"
    "  --adamw-lr X         of AdamW (0.004)\n"
    "  --weight-decay X     of both, decoupled, for matrices (0.1)\n"
    "  --seed N             of the first weights and of the batches (1)\n"
    "  --threads N          0: all processors (0)\n"
    "  --set KEY=VALUE      any hyper-parameter of libshampoo, by the names of docs/keys.md; may be repeated\n"
    "  --csv FILE           receives the curves as numbers (curves.csv); \"\": not written\n"
    "  --svg FILE           receives the curves as a picture (curves.svg); \"\": not written\n"
    "  --help               this text\n";

// Of sizes and counts: what can be allocated, or waited for, is far below.
enum { kLargest = 1 << 24 };

// Options that are one number, and where they go.
static const struct {
  const char* name;
  size_t offset;
  int smallest;
} kIntegers[] = {{"--steps", offsetof(Options, steps), 1},     {"--warmup", offsetof(Options, warmup), 0},
                 {"--every", offsetof(Options, every), 0},     {"--batch", offsetof(Options, batch), 1},
                 {"--context", offsetof(Options, context), 1}, {"--width", offsetof(Options, width), 1},
                 {"--heads", offsetof(Options, heads), 1},     {"--layers", offsetof(Options, layers), 1},
                 {"--seed", offsetof(Options, seed), 0},       {"--threads", offsetof(Options, threads), 0}};
static const struct {
  const char* name;
  size_t offset;
} kNumbers[] = {{"--lr", offsetof(Options, lr)},
                {"--adamw-lr", offsetof(Options, adamw_lr)},
                {"--weight-decay", offsetof(Options, weight_decay)}};

static int set_number(Options* options, const char* name, const char* value) {
  for (size_t i = 0; i < sizeof kIntegers / sizeof kIntegers[0]; ++i) {
    if (strcmp(name, kIntegers[i].name) != 0) continue;
    *(int*)(void*)((char*)options + kIntegers[i].offset) = to_integer(name, value, kIntegers[i].smallest, kLargest);
    return 1;
  }
  for (size_t i = 0; i < sizeof kNumbers / sizeof kNumbers[0]; ++i) {
    if (strcmp(name, kNumbers[i].name) != 0) continue;
    *(double*)(void*)((char*)options + kNumbers[i].offset) = to_number(name, value);
    return 1;
  }
  return 0;
}

void options_free(Options* options) { settings_free(&options->settings); }

static void set_defaults(Options* options) {
  const Options defaults = {.what = kTrainOne,
                            .uses_shampoo = 1,
                            .steps = 300,
                            .warmup = 30,
                            .batch = 32,
                            .context = 128,
                            .width = 192,
                            .heads = 4,
                            .layers = 3,
                            .lr = 0.008,
                            .adamw_lr = 0.004,
                            .weight_decay = 0.1,
                            .seed = 1,
                            .csv = "curves.csv",
                            .svg = "curves.svg"};
  *options = defaults;
}

static int to_optimizer(const char* text) {
  if (strcmp(text, "shampoo") != 0 && strcmp(text, "adamw") != 0) {
    fail("--optimizer: \"%s\" is neither shampoo nor adamw", text);
  }
  return strcmp(text, "shampoo") == 0;
}

static void add_weight_decay(Options* options) {
  char setting[64];
  snprintf(setting, sizeof setting, "weight_decay=%.17g", options->weight_decay);
  settings_add(&options->settings, setting);
}

void options_parse(Options* options, int argc, char** argv) {
  set_defaults(options);
  for (int i = 1; i < argc; ++i) {
    const char* name = argv[i];
    if (strcmp(name, "--help") == 0) {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (strcmp(name, "--compare") == 0) {
      options->what = kCompare;
      continue;
    }
    if (strcmp(name, "--compare-frequencies") == 0) {
      options->what = kCompareFrequencies;
      continue;
    }
    if (strcmp(name, "--search") == 0) {
      options->what = kSearch;
      continue;
    }
    const char* value = argv[++i];  // NULL after the last argument
    if (value == NULL) fail("%s is unknown or lacks its value; see --help", name);
    if (set_number(options, name, value)) continue;
    if (strcmp(name, "--optimizer") == 0) {
      options->uses_shampoo = to_optimizer(value);
    } else if (strcmp(name, "--set") == 0) {
      settings_add(&options->settings, value);
    } else if (strcmp(name, "--csv") == 0) {
      options->csv = value;
    } else if (strcmp(name, "--svg") == 0) {
      options->svg = value;
    } else {
      fail("there is no option %s; see --help", name);
    }
  }
  add_weight_decay(options);
  if (options->every == 0) options->every = options->steps < 15 ? 1 : options->steps / 15;
  if (options->threads == 0) options->threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (options->threads < 1) options->threads = 1;
}
