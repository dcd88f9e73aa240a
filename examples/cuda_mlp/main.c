// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the network of examples/c_mlp on a GPU. With --gpt2, measures the time of a step on parameters with the shapes
// of GPT-2 instead.
#include <shampoo/shampoo.h>
#include <stdio.h>

#include "check.h"
#include "device.h"
#include "options.h"
#include "runs.h"

const char program_name[] = "train_digits_cuda";

static const char kAbout[] =
    "Trains a 64-128-64-10 network on handwritten digits twice on a GPU, from the same weights and on the same "
    "batches:\n"
    "once with Shampoo (with grafting from Adam), and once with AdamW. Prints losses, accuracies and times.\n";

int main(int argc, char** argv) {
  Options options;
  options_parse(&options, argc, argv, kAbout, NULL);

  const int count = device_count();
  if (options.device >= count) fail("--device %d: there are %d GPUs", options.device, count);
  struct cudaDeviceProp properties;
  check_cuda(cudaSetDevice(options.device), "cudaSetDevice");
  check_cuda(cudaGetDeviceProperties(&properties, options.device), "cudaGetDeviceProperties");
  const int version = (int)shampoo_version();
  printf("libshampoo %d.%d.%d, float32, on %s\n", version / 10000, version / 100 % 100, version % 100, properties.name);

  if (options.gpt2) {
    gpt2_run(&options);
  } else {
    digits_run(&options);
  }
  settings_free(&options.settings);
  return 0;
}
