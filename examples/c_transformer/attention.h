// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Causal multi-head attention (Vaswani et al., arXiv 1706.03762) over `sequences` sequences of `length` characters
// each. Head h uses the columns from h * width / heads to (h + 1) * width / heads - 1 of query, key, value and
// output.
#ifndef C_TRANSFORMER_ATTENTION_H
#define C_TRANSFORMER_ATTENTION_H

#include "numeric.h"

// Computes y [sequences][length][width] from qkv [sequences][length][3 * width], whose rows have the query, then the
// key, then the value. weights [sequences][heads][length][length] are kept for the backward pass.
void attention_forward(int sequences, int length, int width, int heads, const real* qkv, real* weights, real* y);

// Computes d_qkv from d_y, in the same shapes. d_weights [length][length] is scratch memory.
void attention_backward(int sequences, int length, int width, int heads, const real* qkv, const real* weights,
                        const real* d_y, real* d_weights, real* d_qkv);

#endif
