// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The options of the program train_host, read from the command line.
#ifndef C_HOST_OPTIONS_H
#define C_HOST_OPTIONS_H

#include "settings.h"

typedef struct {
  int epochs;
  int batch;
  int warmup;       // steps in which the learning rate grows
  int loss_scale;   // initial loss scale
  int give_up;      // the program exits with an error after this number of rejected batches in a row
  int broken_from;  // from this batch on, the gradient has a NaN; counted from 1; 0: no gradient has a NaN
  int blas_threads;
  int log;               // messages of the library up to this level are printed
  int checkpoint_every;  // steps between checkpoints
  int resume;
  int seed;
  const char* checkpoints;  // folder
  const char* data;
  Settings settings;
} Options;

// Stores the defaults, then parses the command line. Exits after --help and after an error.
void options_parse(Options* options, int argc, char** argv);

#endif
