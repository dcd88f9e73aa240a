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
  int shards;  // 0: each rank holds all parameters; otherwise each holds a chunk of every parameter
  int seed;
  const char* data;
  const char* checkpoint;  // directory to save into after every epoch; NULL: none
  int resume;              // 1: goes on from what is there
  int stop_after;          // ends after so many epochs, as if it were killed; 0: not
  Settings settings;
} Options;

// Stores the defaults, then parses the command line. Exits after --help and after an error.
// `more` is a table of additional options, or NULL.
void options_parse(Options* options, int argc, char** argv, const Option* more);

#endif
