// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The two modes of this program, both on the current GPU.
#ifndef CUDA_MLP_RUNS_H
#define CUDA_MLP_RUNS_H

#include "options.h"

// Trains on the digits, with both optimizers.
void digits_run(const Options* options);

// Times steps of both optimizers with the parameters of a large model.
void gpt2_run(const Options* options);

#endif
