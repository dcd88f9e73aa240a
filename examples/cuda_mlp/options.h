// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The command line of train_digits_cuda. train_digits_gpus in ../c_nccl has the same options and additional ones.
#ifndef CUDA_MLP_OPTIONS_H
#define CUDA_MLP_OPTIONS_H

#include "settings.h"

typedef struct {
  int epochs;
  int batch;
  double lr;
  double adamw_lr;
  double weight_decay;
  int seed;
  int device;
  const char* data;
  int gpt2;    // 1: measure the time of a step on the shapes of GPT-2; 0: train on the digits
  int steps;   // number of timed steps if gpt2 is 1
  int layers;  // number of layers if gpt2 is 1
  Settings settings;
} Options;

// Stores the defaults, then parses the command line. Exits after --help and after an error.
// `about` describes the program for --help. `more` is a table of additional options, or NULL.
void options_parse(Options* options, int argc, char** argv, const char* about, const Option* more);

#endif
