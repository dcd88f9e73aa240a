// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A small network, 64-128-64-10 with tanh between the layers. It uses the program's own BLAS for matrix products.
// Parameters are float32. Their gradients are binary16, multiplied by a loss scale.
#ifndef C_HOST_NETWORK_H
#define C_HOST_NETWORK_H

#include <stdint.h>

// The bits of an IEEE 754 binary16, for which C99 has no type: 11 bits of precision, finite values up to 65504.
typedef uint16_t half;
enum { kHalfInfinity = 0x7c00, kHalfNaN = 0x7e00 };

enum { kInputs = 64, kHidden1 = 128, kHidden2 = 64, kClasses = 10, kLayers = 3, kTensors = 2 * kLayers };

// Offsets of the parameters in the buffers `params` and `grads` of a Network, and the length of these buffers.
enum {
  kWeight1 = 0,
  kBias1 = kWeight1 + kHidden1 * kInputs,
  kWeight2 = kBias1 + kHidden1,
  kBias2 = kWeight2 + kHidden2 * kHidden1,
  kWeight3 = kBias2 + kHidden2,
  kBias3 = kWeight3 + kClasses * kHidden2,
  kValues = kBias3 + kClasses
};

// A parameter. In `tensors`, weights have even indices and biases have odd indices.
typedef struct {
  const char* name;
  int ndim;
  int shape[2];
  int offset;
} Tensor;
extern const Tensor tensors[kTensors];

typedef struct {
  int rows;                   // largest number of images in a forward pass
  float* params;              // [kValues]
  half* grads;                // [kValues], gradient of the loss times the loss scale
  float* wide;                // float32 gradient of one parameter, before it is rounded to binary16
  float* outputs[kLayers];    // [rows][outputs of the layer]; softmax replaces the last layer's scores by probabilities
  float* gradients[kLayers];  // gradients with respect to `outputs`, in the same shapes
} Network;

// Creates a network for forward passes of at most `rows` images. Biases are 0. Weights are drawn uniformly from
// [-b, b], with b = sqrt(6 / (inputs + outputs of the layer)) (Glorot and Bengio, 2010).
void network_create(Network* net, int rows, uint64_t* random_state);
void network_free(Network* net);

// Returns the sum of the cross entropies of the images x [count][64]. *correct receives the number of images that are
// classified correctly.
double network_forward(Network* net, int count, const float* x, const int* labels, int* correct);

// Computes loss_scale times the gradient of the mean cross entropy, into net->grads. Call this function after
// network_forward() with the same images.
void network_backward(Network* net, int count, const float* x, const int* labels, float loss_scale);

// Returns 0 if a gradient is NaN or infinite, otherwise 1.
int network_gradients_finite(const Network* net);

// Returns the share of the images x [count][64] that are classified correctly. `count` may exceed net->rows.
double network_accuracy(Network* net, int count, const float* x, const int* labels);

#endif
