// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The options on the command line of train_text. options.c describes each option.
#ifndef C_TRANSFORMER_OPTIONS_H
#define C_TRANSFORMER_OPTIONS_H

#include "settings.h"

// What to train: one optimizer, all optimizers (--compare), AdamW and Shampoo with several values of
// precondition_frequency (--compare-frequencies), or one optimizer with several learning rates (--search).
enum { kTrainOne, kCompare, kCompareFrequencies, kSearch };
// Optimizers. AdamW is the baseline of this example; the others are methods of libshampoo.
enum { kAdamw, kShampoo, kSoap, kKlShampoo, kMuon, kOptimizers };

typedef struct {
  int what;       // kTrainOne, kCompare, ...
  int optimizer;  // with kTrainOne and kSearch: kAdamw, kShampoo, ...
  int steps, warmup, every;
  int batch;  // sequences in a step
  int context, width, heads, layers;
  double lr[kOptimizers];  // for each optimizer, the learning rate at the end of the warmup
  double weight_decay;
  int seed, threads;
  const char* csv;  // file for the losses; if "", no file is written
  Settings settings;
} Options;

// Stores the defaults, then parses the command line. Exits after --help and after an error.
void options_parse(Options* options, int argc, char** argv);

#endif
