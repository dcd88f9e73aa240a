// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The command line.
#ifndef C_TRANSFORMER_OPTIONS_H
#define C_TRANSFORMER_OPTIONS_H

#include "settings.h"

typedef struct {
  enum { kTrainOne, kCompare, kCompareFrequencies, kSearch } what;
  int uses_shampoo;  // of kTrainOne: 1 Shampoo, 0 AdamW
  int steps, warmup, every;
  int batch;  // sequences in a step
  int context, width, heads, layers;
  double lr, adamw_lr;  // largest learning rates, of Shampoo and of AdamW
  double weight_decay;
  int seed, threads;
  const char* csv;  // "": not written
  const char* svg;
  Settings settings;
} Options;

// Defaults, then the command line. Ends the program after --help, and on a mistake.
void options_parse(Options* options, int argc, char** argv);
void options_free(Options* options);

#endif
