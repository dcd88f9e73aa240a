// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The command line.
#ifndef C_CONV_OPTIONS_H
#define C_CONV_OPTIONS_H

#include "settings.h"

enum { kShampoo, kSgd, kAdamW, kMethods };
extern const char* const method_names[kMethods + 1];  // NULL at the end

typedef struct {
  int method;
  double lr;  // below 0: not set on the command line
  double weight_decay;
  int cosine;  // 1: the learning rate falls to 0 along half a cosine; 0: it is constant
  int epochs;
  int batch;
  int seed;
  int threads;
  int evaluate_every;  // steps; 0: once per epoch
  double target_loss;  // the run reports when the training loss first reaches it
  const char* data;
  const char* csv;    // NULL: not written
  Settings settings;  // values of --set
} Options;

// Stores the defaults, then parses the command line. Exits after --help and after an error.
void options_parse(Options* options, int argc, char** argv);

#endif
