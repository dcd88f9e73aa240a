// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The options of the program train_digits, read from the command line.
#ifndef C_MLP_OPTIONS_H
#define C_MLP_OPTIONS_H

#include "settings.h"

typedef struct {
  int epochs;
  int batch;
  double adamw_lr;
  double weight_decay;
  int cosine;  // 1: the learning rates fall to 0 along half a cosine; 0: they are constant
  int seed;
  const char* data;
  const char* csv;  // path of the CSV file; if "", no file is written
  Settings settings;
  // Files for comparisons with recorded losses; see check_reference.py. A path is NULL if its option is not set.
  const char* init;
  const char* batches;
  const char* step_losses;
} Options;

// Stores the defaults, then parses the command line. Exits after --help and after an error.
void options_parse(Options* options, int argc, char** argv);

#endif
