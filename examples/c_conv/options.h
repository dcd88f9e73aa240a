// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The options of the program train_conv, read from the command line.
#ifndef C_CONV_OPTIONS_H
#define C_CONV_OPTIONS_H

#include "settings.h"

enum { kShampoo, kSgd, kAdamW, kMethods };
extern const char* const method_names[kMethods + 1];  // ends with NULL

typedef struct {
  int method;
  double lr;  // without --lr, the usual rate of the method
  double weight_decay;
  int cosine;  // 1: the learning rate falls to 0 along half a cosine; 0: it is constant
  int epochs;
  int batch;
  int seed;
  int threads;
  int evaluate_every;  // steps between evaluations; if 0, the network is evaluated once per epoch
  double target_loss;  // a training loss; the summary has the steps and the seconds until it is reached
  const char* data;
  const char* csv;    // path of the CSV file; if NULL, no file is written
  Settings settings;  // values of --set
} Options;

// Stores the defaults, then parses the command line. Exits after --help and after an error.
void options_parse(Options* options, int argc, char** argv);

#endif
