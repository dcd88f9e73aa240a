// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The two modes of the program train_digits_cuda. Each mode uses the current GPU.
#ifndef CUDA_MLP_RUNS_H
#define CUDA_MLP_RUNS_H

#include "options.h"

// Trains on the digits, once with Shampoo and once with AdamW.
void digits_run(const Options* options);

// Measures the time of a step of Shampoo and of AdamW, on parameters with the shapes of GPT-2.
void gpt2_run(const Options* options);

#endif
