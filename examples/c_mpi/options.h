// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The command line.
#ifndef C_MPI_OPTIONS_H
#define C_MPI_OPTIONS_H

enum { kMaxSettings = 64 };

typedef struct {
  int epochs;
  int batch;  // images per step, of all ranks together
  int fsdp;   // 0: each rank holds all parameters; 1: each holds a chunk of every parameter
  int seed;
  const char* data;
  // Texts "key=value" for libshampoo: the defaults of this program first, then what the command line says.
  int setting_count;
  char* settings[kMaxSettings];
} Options;

// Defaults, then the command line. Ends the program after --help, and on a mistake.
void options_parse(Options* options, int argc, char** argv);
void options_free(Options* options);

#endif
