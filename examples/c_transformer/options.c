// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L  // sysconf
#include "options.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const char kAbout[] =
    "Trains a small transformer to predict the next character of a text. Prints losses and times.\n";

static const char* const kNames[] = {"adamw", "shampoo", "soap", "kl_shampoo", "muon", NULL};

static const double kLr[kOptimizers] = {
    [kAdamw] = 0.004, [kShampoo] = 0.008, [kSoap] = 0.008, [kKlShampoo] = 0.008, [kMuon] = 0.02};

// Largest value of every integer on the command line. Practical sizes and counts are far smaller.
enum { kLargest = 1 << 24 };

void options_parse(Options* options, int argc, char** argv) {
  *options = (Options){.what = kTrainOne,
                       .optimizer = kShampoo,
                       .steps = 300,
                       .warmup = 30,
                       .batch = 32,
                       .context = 128,
                       .width = 192,
                       .heads = 4,
                       .layers = 3,
                       .weight_decay = 0.1,
                       .seed = 1,
                       .csv = "curves.csv"};
  memcpy(options->lr, kLr, sizeof kLr);
  const Option table[] = {
      option_choice("--optimizer", &options->optimizer, kNames, "optimizer to train with"),
      option_flag("--compare", &options->what, kCompare,
                  "trains with all optimizers, from the same weights and on the same batches"),
      option_flag("--compare-frequencies", &options->what, kCompareFrequencies,
                  "trains with AdamW, and with Shampoo with precondition_frequency 1, 10 and 50"),
      option_flag(
          "--search", &options->what, kSearch,
          "trains with the optimizer of --optimizer at five learning rates, from the same weights and on the same "
          "batches"),
      option_integer("--steps", &options->steps, 1, kLargest, "steps of the training"),
      option_integer("--warmup", &options->warmup, 0, kLargest,
                     "steps in which the learning rate rises; in later steps it falls to 0 along half a cosine"),
      option_integer("--every", &options->every, 0, kLargest,
                     "steps between evaluations of the validation loss; 0: a fifteenth of all steps"),
      option_integer("--batch", &options->batch, 1, kLargest, "sequences in a step"),
      option_integer("--context", &options->context, 1, kLargest, "characters of a sequence"),
      option_integer("--width", &options->width, 1, kLargest, "width of the residual stream"),
      option_integer("--heads", &options->heads, 1, kLargest, "attention heads; must divide the width"),
      option_integer("--layers", &options->layers, 1, kLargest, "layers of the model"),
      option_number("--lr", &options->lr[kShampoo], "largest learning rate of Shampoo"),
      option_number("--soap-lr", &options->lr[kSoap], "largest learning rate of SOAP"),
      option_number("--kl-shampoo-lr", &options->lr[kKlShampoo], "largest learning rate of KL-Shampoo"),
      option_number("--muon-lr", &options->lr[kMuon], "largest learning rate of Muon"),
      option_number("--adamw-lr", &options->lr[kAdamw], "largest learning rate of AdamW"),
      option_number("--weight-decay", &options->weight_decay,
                    "decoupled weight decay of all optimizers, for matrices only"),
      option_integer("--seed", &options->seed, 0, kLargest, "seed of the initial weights and of the batches"),
      option_integer("--threads", &options->threads, 0, kLargest, "threads; 0: one for each processor"),
      settings_option(&options->settings),
      option_text("--csv", "FILE", &options->csv,
                  "receives the curves, which ../plot.py draws; if \"\", no file is written"),
      {0}};
  command_line_parse(argc, argv, kAbout, table, NULL);
  settings_put_first(&options->settings, "weight_decay", options->weight_decay);
  if (options->every == 0) options->every = options->steps < 15 ? 1 : options->steps / 15;
  if (options->threads == 0) options->threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (options->threads < 1) options->threads = 1;
}
