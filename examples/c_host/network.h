// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The host's own work: a small network, 64-128-64-10 with tanh between the layers. Matrix products are those of the
// host's BLAS. Parameters are float32, gradients leave as binary16, multiplied by a loss scale.
#ifndef C_HOST_NETWORK_H
#define C_HOST_NETWORK_H

#include <stdint.h>

// The bits of an IEEE 754 binary16, for which C99 has no type: 11 bits of precision, nothing finite above 65504.
typedef uint16_t half;
enum { kHalfInfinity = 0x7c00, kHalfNaN = 0x7e00 };

enum { kInputs = 64, kHidden1 = 128, kHidden2 = 64, kClasses = 10, kLayers = 3, kTensors = 2 * kLayers };

// Where each parameter begins in the flat buffers, and the length of those.
enum {
  kWeight1 = 0,
  kBias1 = kWeight1 + kHidden1 * kInputs,
  kWeight2 = kBias1 + kHidden1,
  kBias2 = kWeight2 + kHidden2 * kHidden1,
  kWeight3 = kBias2 + kHidden2,
  kBias3 = kWeight3 + kClasses * kHidden2,
  kValues = kBias3 + kClasses
};

// One of the parameters. Weights have even indices, their biases odd ones.
typedef struct {
  const char* name;
  int ndim;
  int shape[2];
  int offset;
} Tensor;
extern const Tensor tensors[kTensors];

typedef struct {
  int rows;                   // largest number of images in a pass
  float* params;              // [kValues]
  half* grads;                // [kValues], of the loss times the loss scale
  float* wide;                // one tensor's gradient, before it becomes binary16
  float* outputs[kLayers];    // [rows][width] of each layer; of the last one scores, then probabilities
  float* gradients[kLayers];  // gradients with respect to those outputs
} Network;

// A network for at most `rows` images at once, its weights drawn by Glorot's rule.
void network_create(Network* net, int rows, uint64_t* random_state);
void network_free(Network* net);

// The summed cross entropy of `count` images x [count][64]; *correct receives how many of them are recognised.
double network_forward(Network* net, int count, const float* x, const int* labels, int* correct);

// After it, for the same images: the gradient of the mean cross entropy times loss_scale.
void network_backward(Network* net, int count, const float* x, const int* labels, float loss_scale);

// 0: a NaN or an infinity is among the gradients.
int network_gradients_finite(const Network* net);

// Share of any number of images that is recognised.
double network_accuracy(Network* net, int count, const float* x, const int* labels);

#endif
