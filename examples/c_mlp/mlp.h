// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A small network: 64 inputs, two hidden layers with 128 and 64 outputs, and a last layer with the scores of 10
// classes. tanh is applied to the outputs of hidden layers. The functions below compute the mean cross entropy of
// images, and its gradient with respect to the parameters.
//
// One flat buffer contains all parameters, and another contains all gradients. Both have the order W1 b1 W2 b2 W3 b3:
//   W1 [128][64]   b1 [128]   W2 [64][128]   b2 [64]   W3 [10][64]   b3 [10]
// A layer computes y = W x + b. W is row-major, with one row per output.
#ifndef C_MLP_MLP_H
#define C_MLP_MLP_H

#include <stdint.h>

#include "real.h"

enum {
  kInputs = 64,
  kHidden1 = 128,
  kHidden2 = 64,
  kClasses = 10,
  kTensors = 6,
  kValues = kHidden1 * (kInputs + 1) + kHidden2 * (kHidden1 + 1) + kClasses * (kHidden2 + 1)
};

// A parameter: its shape, and its offset in the flat buffers.
typedef struct {
  const char* name;
  int ndim;
  int shape[2];
  int offset;
} MlpTensor;
extern const MlpTensor mlp_tensors[kTensors];

typedef struct {
  int rows;       // largest number of images in a forward pass
  real* params;   // [kValues]
  real* grads;    // [kValues]
  real* hidden1;  // [rows][128], outputs of the first layer, which the backward pass reads
  real* hidden2;  // [rows][64], outputs of the second layer
  real* scores;   // [rows][10]; softmax replaces them by probabilities
  real* d1;       // d1, d2 and d3: the gradients with respect to hidden1, hidden2 and scores, in the same shapes
  real* d2;
  real* d3;
} Mlp;

// Allocates a network for forward passes of at most `rows` images. Its parameters are zeros.
void mlp_create(Mlp* net, int rows);
void mlp_free(Mlp* net);

// Sets biases to 0. Draws weights uniformly from [-bound, bound], with bound = sqrt(6 / (inputs + outputs of the
// layer)) (Glorot and Bengio, 2010).
void mlp_init(Mlp* net, uint64_t* random_state);

// Returns the mean cross entropy of the images x [count][64], and writes its gradient to net->grads. `count` is at most
// net->rows.
double mlp_gradient(Mlp* net, int count, const real* x, const int* labels);

// Returns the mean cross entropy of the images x [count][64]. `count` may be any number. *correct receives the number
// of images that are classified correctly.
double mlp_evaluate(Mlp* net, int count, const real* x, const int* labels, int* correct);

#endif
