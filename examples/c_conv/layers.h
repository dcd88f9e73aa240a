// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The layers of a convolutional network, each with its way back.
//
// Images in the network lie as [channels][images][side][side]. So the patches of all images of a batch are the columns
// of one matrix, and a convolution is one matrix product.
#ifndef C_CONV_LAYERS_H
#define C_CONV_LAYERS_H

#include "real.h"

// A convolution with 3x3 weights [outputs][inputs][3][3]; around the image there are zeros.
typedef struct {
  int inputs;   // channels that come in
  int outputs;  // channels that go out
  int side;     // of an image, the same before and after
} Conv;

enum { kTaps = 9 };  // of a 3x3 filter

// y [outputs][images][side][side] = w * x + b. `columns` [inputs * 9][images * side * side] receives the patches of x,
// which the way back needs.
void conv_forward(const Conv* conv, int images, const real* x, const real* w, const real* b, real* columns, real* y);

// From dy, in the shape of y: dw, db and dx in the shapes of w, b and x. Spoils `columns`. dx may be NULL: not wanted.
void conv_backward(const Conv* conv, int images, const real* w, const real* dy, real* columns, real* dw, real* db,
                   real* dx);

// max(y, 0) in place. On the way back dy, the gradient by what came out, becomes that by what went in.
void relu_forward(int count, real* y);
void relu_backward(int count, const real* y, real* dy);

// The mean of every 2x2 pixels of x [channels][images][side][side]. Channel c of image i is written to
// y + c * channel_stride + i * image_stride: another image behind it, or another channel, as the next layer wants it.
typedef struct {
  int channels, side;
  int channel_stride, image_stride;  // in y
} Pool;
void pool_forward(const Pool* pool, int images, const real* x, real* y);
void pool_backward(const Pool* pool, int images, const real* dy, real* dx);

// y [rows][outputs] = x [rows][inputs] w^T + b, w [outputs][inputs]; and back.
void linear_forward(int rows, int inputs, int outputs, const real* x, const real* w, const real* b, real* y);
void linear_backward(int rows, int inputs, int outputs, const real* x, const real* w, const real* dy, real* dw,
                     real* db, real* dx);

// Turns a row of scores into probabilities and returns the cross entropy -log(probability of the label).
double softmax(int classes, real* row, int label);

#endif
