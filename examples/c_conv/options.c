// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <limits.h>
#include <stddef.h>

#include "check.h"

static const char kAbout[] =
    "Trains a small convolutional network on handwritten digits and prints losses and accuracies.\n"
    "Exit status: 0 after success, 1 after an error, 2 if the training diverged.\n";

const char* const method_names[kMethods + 1] = {"shampoo", "sgd", "adamw", NULL};
static const double kUsualRates[kMethods] = {0.03, 0.1, 0.02};
static const char* const kSchedules[] = {"constant", "cosine", NULL};

void options_parse(Options* options, int argc, char** argv) {
  *options = (Options){.method = kShampoo,
                       .lr = -1,
                       .weight_decay = 1e-4,
                       .cosine = 1,
                       .epochs = 10,
                       .batch = 64,
                       .seed = 1,
                       .threads = 1,
                       .target_loss = 0.1,
                       .data = "../c_mlp/data/digits.bin"};
  const Option table[] = {
      option_choice("--optimizer", &options->method, method_names, "optimizer; sgd has Nesterov momentum 0.9"),
      option_number("--lr", &options->lr, "learning rate (default: 0.03 with shampoo, 0.1 with sgd, 0.02 with adamw)"),
      option_number("--weight-decay", &options->weight_decay,
                    "weight decay; sgd adds it to the gradient, and the other optimizers decouple it"),
      option_choice("--schedule", &options->cosine, kSchedules,
                    "schedule of the learning rate; with cosine, the rate falls to 0 along half a cosine"),
      option_integer("--epochs", &options->epochs, 1, INT_MAX, "passes over the training images"),
      option_integer("--batch", &options->batch, 1, INT_MAX, "images per step"),
      option_integer("--seed", &options->seed, 0, INT_MAX,
                     "seed of the initial weights and of the order of the images"),
      option_integer("--threads", &options->threads, 0, INT_MAX, "threads of a Shampoo step; 0: as many as are useful"),
      settings_option(&options->settings),
      option_integer("--evaluate-every", &options->evaluate_every, 0, INT_MAX,
                     "steps between evaluations; 0: once per epoch"),
      option_number("--target", &options->target_loss,
                    "a training loss; the summary has the steps and the seconds until it is reached"),
      option_text("--data", "FILE", &options->data, "the images"),
      option_text("--csv", "FILE", &options->csv, "receives a row for each evaluation; by default no file is written"),
      {0}};
  command_line_parse(argc, argv, kAbout, table, NULL);
  if (options->lr < 0) options->lr = kUsualRates[options->method];
  if (options->settings.count > 0 && options->method != kShampoo) {
    fail("--set cannot be combined with --optimizer %s; expected --optimizer shampoo", method_names[options->method]);
  }
}
