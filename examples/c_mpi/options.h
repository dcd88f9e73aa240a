// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The command line.
#ifndef C_MPI_OPTIONS_H
#define C_MPI_OPTIONS_H

#include "settings.h"

typedef struct {
  int epochs;
  int batch;   // images per step, of all ranks together
  int shards;  // 0: each rank holds all parameters; 1: each holds a chunk of every parameter
  int seed;
  const char* data;
  const char* checkpoint;  // directory to save into after every epoch; NULL: none
  int resume;              // 1: goes on from what is there
  int stop_after;          // ends after so many epochs, as if it were killed; 0: not
  Settings settings;
} Options;

// Defaults, then the command line. Ends the program after --help, and on a mistake.
void options_parse(Options* options, int argc, char** argv);
void options_free(Options* options);

#endif
