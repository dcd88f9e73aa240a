// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Causal multi-head attention (Vaswani et al., arXiv 1706.03762) over `sequences` sequences of `length` characters
// each. Head h uses the columns from h * width / heads to (h + 1) * width / heads - 1 of query, key, value and
// output.
#ifndef C_TRANSFORMER_ATTENTION_H
#define C_TRANSFORMER_ATTENTION_H

#include "numeric.h"

// Computes y [sequences][length][width] from qkv [sequences][length][3 * width], whose rows contain query, key and
// value of a character, in this order. Writes the attention weights [sequences][heads][length][length] to `weights`,
// for the backward pass.
void attention_forward(int sequences, int length, int width, int heads, const real* qkv, real* weights, real* y);

// Computes d_qkv, the gradient of the loss with respect to qkv, from d_y, the gradient with respect to y. weights: from
// attention_forward(). d_weights [length][length] is scratch memory.
void attention_backward(int sequences, int length, int width, int heads, const real* qkv, const real* weights,
                        const real* d_y, real* d_weights, real* d_qkv);

#endif
