// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The command line.
#ifndef C_TRANSFORMER_OPTIONS_H
#define C_TRANSFORMER_OPTIONS_H

#include "settings.h"

enum { kTrainOne, kCompare, kCompareFrequencies, kSearch };

typedef struct {
  int what;          // kTrainOne, kCompare, ...
  int uses_shampoo;  // of kTrainOne: 1 Shampoo, 0 AdamW
  int steps, warmup, every;
  int batch;  // sequences in a step
  int context, width, heads, layers;
  double lr, adamw_lr;  // largest learning rates, of Shampoo and of AdamW
  double weight_decay;
  int seed, threads;
  const char* csv;  // "": not written
  Settings settings;
} Options;

// Stores the defaults, then parses the command line. Exits after --help and after an error.
void options_parse(Options* options, int argc, char** argv);

#endif
