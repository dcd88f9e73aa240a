// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The command line.
#ifndef C_MPI_OPTIONS_H
#define C_MPI_OPTIONS_H

#include "settings.h"

typedef struct {
  int epochs;
  int batch;   // images per step, on all ranks together
  int shards;  // 0: each rank holds all parameters; 1 (local) and 2 (gather): each holds a chunk of every parameter
  int seed;
  const char* data;
  const char* checkpoint;  // directory to save into after every epoch; NULL: none
  int resume;              // 1: continue from the checkpoint
  int stop_after;          // number of epochs after which to exit, as if killed; 0: train to the end
  Settings settings;
} Options;

// Stores the defaults, then parses the command line. Exits after --help and after an error.
// `more` is a table of additional options, or NULL.
void options_parse(Options* options, int argc, char** argv, const Option* more);

#endif
