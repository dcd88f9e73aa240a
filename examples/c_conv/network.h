// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A small convolutional network that classifies 8x8 images. Computes the mean cross entropy and its gradient.
// Layers, with the numbers of their input and output channels (linear: inputs and outputs):
//   conv 3x3 1 -> 16, relu; conv 3x3 16 -> 32, relu; mean of 2x2;
//   conv 3x3 32 -> 32, relu; mean of 2x2; linear 128 -> 10
//
// One flat buffer contains all parameters, and another contains all gradients. Both have the order of network_tensors.
#ifndef C_CONV_NETWORK_H
#define C_CONV_NETWORK_H

#include <stdint.h>

#include "real.h"

enum {
  kPixels = 64,  // pixels of an 8x8 image
  kClasses = 10,
  kTensors = 8,
  kValues = 16 * (9 + 1) + 32 * (16 * 9 + 1) + 32 * (32 * 9 + 1) + 10 * (128 + 1)
};

// A parameter: its shape, and its offset in the flat buffers.
typedef struct {
  const char* name;
  int ndim;
  int shape[4];
  int offset;
} NetworkTensor;
extern const NetworkTensor network_tensors[kTensors];
int network_tensor_size(const NetworkTensor* tensor);

typedef struct {
  int images;      // largest number of images in a forward pass; called n below
  real* params;    // [kValues]
  real* grads;     // [kValues]
  real* columns1;  // columns1 to columns3: input patches of the three convolutions; see conv_forward()
  real* columns2;
  real* columns3;
  real* hidden1;    // [16][n][8][8], outputs of the layers, kept for the backward pass
  real* hidden2;    // [32][n][8][8]
  real* pooled2;    // [32][n][4][4]
  real* hidden3;    // [32][n][4][4]
  real* features;   // [n][32][2][2]
  real* scores;     // [n][10]; softmax replaces them by probabilities
  real* d_hidden1;  // d_NAME: gradient with respect to NAME, in the shape of NAME
  real* d_hidden2;
  real* d_pooled2;
  real* d_hidden3;
  real* d_features;
  real* d_scores;
} Network;

// Allocates a network for forward passes of at most `images` images. Its parameters are zeros.
void network_create(Network* net, int images);
void network_free(Network* net);

// Sets biases to 0. Draws weights uniformly from [-b, b] with b = sqrt(6 / weights per output) (He et al., 2015).
void network_init(Network* net, uint64_t* random_state);

// Returns the mean cross entropy of the images x [count][8][8], and writes its gradient to net->grads. `count` is at
// most net->images.
double network_gradient(Network* net, int count, const real* x, const int* labels);

// Returns the mean cross entropy of the images x [count][8][8]. `count` may be any number. *correct receives the
// number of images that are classified correctly.
double network_evaluate(Network* net, int count, const real* x, const int* labels, int* correct);

#endif
