// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <limits.h>

void options_parse(Options* options, int argc, char** argv, const char* about, const Option* more) {
  *options = (Options){.epochs = 25,
                       .batch = 64,
                       .lr = 0.03,
                       .adamw_lr = 0.03,
                       .weight_decay = 0.1,
                       .seed = 1,
                       .data = "../c_mlp/data/digits.bin",
                       .steps = 50,
                       .layers = 12};
  const Option table[] = {
      option_integer("--epochs", &options->epochs, 1, 100000, "passes over the training images"),
      option_integer("--batch", &options->batch, 1, 100000, "images per step"),
      option_number("--lr", &options->lr, "learning rate of Shampoo at the start; it falls to 0 along half a cosine"),
      option_number("--adamw-lr", &options->adamw_lr, "learning rate of AdamW at the start; it falls in the same way"),
      option_number("--weight-decay", &options->weight_decay, "decoupled weight decay of both optimizers"),
      option_integer("--seed", &options->seed, 0, INT_MAX,
                     "seed of the initial weights and of the order of the images"),
      option_integer("--device", &options->device, 0, INT_MAX, "index of the GPU"),
      settings_option(&options->settings),
      option_text("--data", "FILE", &options->data, "file of the images"),
      option_flag("--gpt2", &options->gpt2, 1,
                  "do not train: measure the time of a step on the shapes of GPT-2, with random gradients"),
      option_integer("--steps", &options->steps, 1, 100000,
                     "with --gpt2: number of timed steps, after ten steps whose times are not reported"),
      option_integer("--layers", &options->layers, 0, 1000,
                     "with --gpt2: number of layers; the smallest published GPT-2 has 12"),
      {0}};
  command_line_parse(argc, argv, about, table, more);
  settings_put_first(&options->settings, "weight_decay", options->weight_decay);
}
