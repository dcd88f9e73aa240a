// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The layers of the model, forward and backward. A row is one character; n is the number of rows. Gradients of
// parameters (d_weight, d_gain, ...) are added to the previous values, because a batch is computed in pieces.
#ifndef C_TRANSFORMER_LAYERS_H
#define C_TRANSFORMER_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include "numeric.h"

// Computes y [n][outputs] = x [n][inputs] W^T + beta * y, where W [outputs][inputs] is `weight`.
void linear_forward(int n, int inputs, int outputs, const real* x, const real* weight, real beta, real* y);
// Computes d_weight [outputs][inputs] += d_y^T x and d_x [n][inputs] = d_y W.
void linear_backward(int n, int inputs, int outputs, const real* x, const real* weight, const real* d_y, real* d_weight,
                     real* d_x);

// Computes a layer norm (Ba et al., arXiv 1607.06450) of each row: y [n][width] = gain * (x - mean) / deviation + bias.
// stats [n][2] keeps mean and 1 / deviation for the backward pass.
void norm_forward(int n, int width, const real* x, const real* gain, const real* bias, real* y, real* stats);
// Computes the gradient with respect to x, and adds it to d_x [n][width].
void norm_backward(int n, int width, const real* x, const real* gain, const real* stats, const real* d_y, real* d_gain,
                   real* d_bias, real* d_x);

// Computes the tanh form of GELU (Hendrycks and Gimpel, arXiv 1606.08415): y = x * (1 + tanh(t)) / 2, where t is
// sqrt(2 / pi) * (x + 0.044715 * x^3). The code uses sigmoid(2 * t), which is equal to (1 + tanh(t)) / 2.
void gelu_forward(size_t count, const real* x, real* y);
// Replaces d [count], the gradient with respect to y, by the gradient with respect to x.
void gelu_backward(size_t count, const real* x, real* d);

// Returns the sum over the rows of -log(probability of the target). Replaces scores [n][vocab] by scale times the
// gradient of this sum with respect to the scores.
double cross_entropy(int n, int vocab, real* scores, const uint8_t* targets, real scale);

#endif
