// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Computes the output of each layer of a convolutional network, and the gradients with respect to inputs and weights.
//
// Images in the network have the layout [channels][images][side][side]. The patch of a pixel consists of its 3x3
// neighbors in all channels. The patches of all images are the columns of one matrix. A convolution is the product of
// the weights and this matrix.
#ifndef C_CONV_LAYERS_H
#define C_CONV_LAYERS_H

#include "real.h"

// A convolution with 3x3 weights [outputs][inputs][3][3] and zero padding.
typedef struct {
  int inputs;   // input channels
  int outputs;  // output channels
  int side;     // width and height of an input or output image
} Conv;

enum { kTaps = 9 };  // weights of a 3x3 filter

// Computes y [outputs][images][side][side], the convolution of x with the weights w, plus the bias b of each output
// channel. `columns` [inputs * 9][images * side * side] receives the patches of x, which the backward pass needs.
void conv_forward(const Conv* conv, int images, const real* x, const real* w, const real* b, real* columns, real* y);

// Computes dw, db and dx, the gradients with respect to w, b and x, from dy, the gradient with respect to y. `columns`
// must contain the patches that conv_forward() wrote. dx may be NULL. If dx is not NULL, the call overwrites
// `columns`.
void conv_backward(const Conv* conv, int images, const real* w, const real* dy, real* columns, real* dw, real* db,
                   real* dx);

// Replaces y by max(y, 0).
void relu_forward(int count, real* y);
// Replaces dy, the gradient with respect to the output y, by the gradient with respect to the input.
void relu_backward(int count, const real* y, real* dy);

// pool_forward() computes the mean of each square of 2x2 pixels of x [channels][images][side][side]. It writes channel
// c of image i to y + c * channel_stride + i * image_stride, so that y can have the layout that the next layer expects.
// pool_backward() computes dx, in the shape of x, from dy, in the layout of y.
typedef struct {
  int channels, side;
  int channel_stride, image_stride;  // strides of y
} Pool;
void pool_forward(const Pool* pool, int images, const real* x, real* y);
void pool_backward(const Pool* pool, int images, const real* dy, real* dx);

// linear_forward() computes y [rows][outputs] = x [rows][inputs] w^T + b with w [outputs][inputs]. linear_backward()
// computes the gradients dw, db and dx from dy.
void linear_forward(int rows, int inputs, int outputs, const real* x, const real* w, const real* b, real* y);
void linear_backward(int rows, int inputs, int outputs, const real* x, const real* w, const real* dy, real* dw,
                     real* db, real* dx);

// Replaces a row of scores by probabilities and returns the cross entropy -log(probability of the label).
double softmax(int classes, real* row, int label);

#endif
