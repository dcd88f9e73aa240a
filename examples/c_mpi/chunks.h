// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The division of the parameters into chunks: every rank holds one chunk of each flattened parameter. The chunks of a
// parameter have the same size, except that the last ones may be shorter or empty. All chunks of a rank are in one
// buffer, in which each chunk is padded to the full chunk size. The buffers of all ranks are therefore equally large,
// and one collective gathers all parameters.
#ifndef C_MPI_CHUNKS_H
#define C_MPI_CHUNKS_H

// The part of a parameter that a rank holds.
typedef struct {
  int begin;   // where the chunk begins in the flattened parameter, in elements
  int count;   // number of elements; may be 0
  int offset;  // where the chunk begins in the buffer of the rank, in elements
} Chunk;

// Returns the chunk that a rank holds of a parameter. tensor: index in mlp_tensors.
Chunk chunk_of(int tensor, int rank, int world);

// Returns the size of the buffer of a rank, in elements.
int chunks_size(int world);

#endif
