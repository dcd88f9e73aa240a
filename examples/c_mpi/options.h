// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The options on the command line of train_digits_mpi and of ../c_nccl's train_digits_nccl.
#ifndef C_MPI_OPTIONS_H
#define C_MPI_OPTIONS_H

#include "settings.h"

typedef struct {
  int epochs;
  int batch;   // images per step, on all ranks together
  int shards;  // 0: each rank holds all parameters; otherwise, each rank holds a chunk of every parameter:
               // 1 with shard_mode=local, 2 with shard_mode=gather
  int seed;
  const char* data;        // file with the images
  const char* checkpoint;  // folder of the checkpoints; NULL: the run saves none
  int resume;              // 1: continue from the last checkpoint in the folder
  int stop_after;          // number of the epoch after which the run ends; 0: after all epochs
  Settings settings;
} Options;

// Stores the defaults, then parses the command line. Exits after --help and after an error.
// `more` is a table of additional options, or NULL.
void options_parse(Options* options, int argc, char** argv, const Option* more);

#endif
