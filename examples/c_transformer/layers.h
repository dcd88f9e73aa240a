// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The parts of the model, forward and backward. A row is one character; n is the number of rows. Gradients of
// parameters (d_weight, d_gain, ...) are added to what is there, since a batch is computed in pieces.
#ifndef C_TRANSFORMER_LAYERS_H
#define C_TRANSFORMER_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include "numeric.h"

// y [n][outputs] = x [n][inputs] W^T + beta y, W [outputs][inputs]
void linear_forward(int n, int inputs, int outputs, const real* x, const real* weight, real beta, real* y);
// d_weight [outputs][inputs] += d_y^T x, d_x [n][inputs] = d_y W
void linear_backward(int n, int inputs, int outputs, const real* x, const real* weight, const real* d_y, real* d_weight,
                     real* d_x);

// Layer norm (Ba and others, arXiv 1607.06450): y [n][width] = gain (x - mean) / deviation + bias, by row.
// stats [n][2] keeps mean and 1 / deviation for the way back.
void norm_forward(int n, int width, const real* x, const real* gain, const real* bias, real* y, real* stats);
// d_x [n][width] += what d_y gives.
void norm_backward(int n, int width, const real* x, const real* gain, const real* stats, const real* d_y, real* d_gain,
                   real* d_bias, real* d_x);

// GELU (Hendrycks and Gimpel, arXiv 1606.08415) in its form with tanh; tanh(z) is 2 sigmoid(2 z) - 1.
void gelu_forward(size_t count, const real* x, real* y);
// On entry d [count] is the gradient by y, on return that by x.
void gelu_backward(size_t count, const real* x, real* d);

// The sum over the rows of -log(probability of the target). Turns scores [n][vocab] into scale times its gradient.
double cross_entropy(int n, int vocab, real* scores, const uint8_t* targets, real scale);

#endif
