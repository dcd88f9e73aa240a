// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <limits.h>
#include <stddef.h>

static const char kAbout[] =
    "Trains a 64-128-64-10 network on handwritten digits twice, from the same weights and on the same batches: once\n"
    "with Shampoo (with grafting from Adam), and once with AdamW. Prints losses and accuracies.\n";

static const char* const kSchedules[] = {"constant", "cosine", NULL};

void options_parse(Options* options, int argc, char** argv) {
  double lr = 0.03;
  int threads = 0;
  *options = (Options){.epochs = 25,
                       .batch = 64,
                       .adamw_lr = 0.03,
                       .weight_decay = 0.1,
                       .cosine = 1,
                       .seed = 1,
                       .data = "data/digits.bin",
                       .csv = "curves.csv"};
  const Option table[] = {
      option_integer("--epochs", &options->epochs, 1, INT_MAX, "passes over the training images"),
      option_integer("--batch", &options->batch, 1, INT_MAX, "images per step"),
      option_number("--lr", &lr, "learning rate of Shampoo"),
      option_number("--adamw-lr", &options->adamw_lr, "learning rate of AdamW"),
      option_number("--weight-decay", &options->weight_decay, "decoupled weight decay of both optimizers"),
      option_choice("--schedule", &options->cosine, kSchedules,
                    "schedule of the learning rates; with cosine, the rates fall to 0 along half a cosine"),
      option_integer("--threads", &threads, 0, INT_MAX, "threads of a Shampoo step; 0: as many as are useful"),
      option_integer("--seed", &options->seed, 0, INT_MAX,
                     "seed of the initial weights and of the order of the images"),
      settings_option(&options->settings),
      option_text("--data", "FILE", &options->data, "the images"),
      option_text("--csv", "FILE", &options->csv,
                  "receives the curves, which ../plot.py draws; if \"\", no file is written"),
      // check_reference.py uses the options below.
      option_text("--init", "FILE", &options->init,
                  "initial parameters: 17226 float64 numbers, in the order W1 b1 W2 b2 W3 b3; matrices are row-major"),
      option_text("--batches", "FILE", &options->batches,
                  "int32 indices of training images for one epoch, in the order of use; each step uses the next "
                  "--batch of them"),
      option_text("--step-losses", "FILE", &options->step_losses,
                  "receives the loss before each step, in full precision"),
      {0}};
  command_line_parse(argc, argv, kAbout, table, NULL);
  settings_put_first(&options->settings, "lr", lr);
  settings_put_first(&options->settings, "weight_decay", options->weight_decay);
  settings_put_first(&options->settings, "threads", threads);
}
