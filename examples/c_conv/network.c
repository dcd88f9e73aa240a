// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "network.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "layers.h"
#include "random.h"

enum { kChannels1 = 16, kChannels2 = 32, kChannels3 = 32, kSide = 8, kFeatures = kChannels3 * 4 };

enum {
  kW1 = 0,
  kB1 = kW1 + kChannels1 * kTaps,
  kW2 = kB1 + kChannels1,
  kB2 = kW2 + kChannels2 * kChannels1 * kTaps,
  kW3 = kB2 + kChannels2,
  kB3 = kW3 + kChannels3 * kChannels2 * kTaps,
  kW4 = kB3 + kChannels3,
  kB4 = kW4 + kClasses * kFeatures
};

const NetworkTensor network_tensors[kTensors] = {
    {"conv1.weight", 4, {kChannels1, 1, 3, 3}, kW1},          {"conv1.bias", 1, {kChannels1}, kB1},
    {"conv2.weight", 4, {kChannels2, kChannels1, 3, 3}, kW2}, {"conv2.bias", 1, {kChannels2}, kB2},
    {"conv3.weight", 4, {kChannels3, kChannels2, 3, 3}, kW3}, {"conv3.bias", 1, {kChannels3}, kB3},
    {"linear.weight", 2, {kClasses, kFeatures}, kW4},         {"linear.bias", 1, {kClasses}, kB4},
};

static const Conv kConv1 = {1, kChannels1, kSide};
static const Conv kConv2 = {kChannels1, kChannels2, kSide};
static const Conv kConv3 = {kChannels2, kChannels3, kSide / 2};

// The output of pool2() is the input of a convolution, so it has the layout [channels][images][side][side]. The output
// of kPool3 is the input of the linear layer, so each of its rows has all features of one image.
static Pool pool2(int images) {
  const Pool pool = {kChannels2, kSide, images * kPixels / 4, kPixels / 4};
  return pool;
}
static const Pool kPool3 = {kChannels3, kSide / 2, kPixels / 16, kFeatures};

int network_tensor_size(const NetworkTensor* tensor) {
  int size = 1;
  for (int d = 0; d < tensor->ndim; ++d) size *= tensor->shape[d];
  return size;
}

void network_create(Network* net, int images) {
  const size_t n = (size_t)images, pixels = n * kPixels;
  net->images = images;
  net->params = allocate(kValues, sizeof(real));
  net->grads = allocate(kValues, sizeof(real));
  net->columns1 = allocate(kTaps * pixels, sizeof(real));
  net->columns2 = allocate(kChannels1 * kTaps * pixels, sizeof(real));
  net->columns3 = allocate(kChannels2 * kTaps * pixels / 4, sizeof(real));
  net->hidden1 = allocate(kChannels1 * pixels, sizeof(real));
  net->hidden2 = allocate(kChannels2 * pixels, sizeof(real));
  net->pooled2 = allocate(kChannels2 * pixels / 4, sizeof(real));
  net->hidden3 = allocate(kChannels3 * pixels / 4, sizeof(real));
  net->features = allocate(n * kFeatures, sizeof(real));
  net->scores = allocate(n * kClasses, sizeof(real));
  net->d_hidden1 = allocate(kChannels1 * pixels, sizeof(real));
  net->d_hidden2 = allocate(kChannels2 * pixels, sizeof(real));
  net->d_pooled2 = allocate(kChannels2 * pixels / 4, sizeof(real));
  net->d_hidden3 = allocate(kChannels3 * pixels / 4, sizeof(real));
  net->d_features = allocate(n * kFeatures, sizeof(real));
  net->d_scores = allocate(n * kClasses, sizeof(real));
}

void network_free(Network* net) {
  real* const buffers[] = {net->params,     net->grads,     net->columns1,  net->columns2,  net->columns3,
                           net->hidden1,    net->hidden2,   net->pooled2,   net->hidden3,   net->features,
                           net->scores,     net->d_hidden1, net->d_hidden2, net->d_pooled2, net->d_hidden3,
                           net->d_features, net->d_scores};
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; ++i) free(buffers[i]);
}

void network_init(Network* net, uint64_t* random_state) {
  for (int t = 0; t < kTensors; ++t) {
    const NetworkTensor* tensor = &network_tensors[t];
    const int size = network_tensor_size(tensor);
    const double bound = tensor->ndim > 1 ? sqrt(6.0 / (size / tensor->shape[0])) : 0.0;
    real* values = net->params + tensor->offset;
    for (int i = 0; i < size; ++i) values[i] = (real)(bound * (2.0 * random_uniform(random_state) - 1.0));
  }
}

static double forward(Network* net, int n, const real* x, const int* labels, int* correct) {
  const real* p = net->params;
  const Pool first_pool = pool2(n);
  conv_forward(&kConv1, n, x, p + kW1, p + kB1, net->columns1, net->hidden1);
  relu_forward(kChannels1 * n * kPixels, net->hidden1);
  conv_forward(&kConv2, n, net->hidden1, p + kW2, p + kB2, net->columns2, net->hidden2);
  relu_forward(kChannels2 * n * kPixels, net->hidden2);
  pool_forward(&first_pool, n, net->hidden2, net->pooled2);
  conv_forward(&kConv3, n, net->pooled2, p + kW3, p + kB3, net->columns3, net->hidden3);
  relu_forward(kChannels3 * n * kPixels / 4, net->hidden3);
  pool_forward(&kPool3, n, net->hidden3, net->features);
  linear_forward(n, kFeatures, kClasses, net->features, p + kW4, p + kB4, net->scores);
  double loss = 0;
  for (int r = 0; r < n; ++r) {
    real* row = net->scores + r * kClasses;
    int best = 0;
    for (int c = 1; c < kClasses; ++c) best = row[c] > row[best] ? c : best;
    *correct += best == labels[r];
    loss += softmax(kClasses, row, labels[r]);
  }
  return loss;
}

double network_gradient(Network* net, int count, const real* x, const int* labels) {
  int correct = 0;
  const double loss = forward(net, count, x, labels, &correct);
  const real* p = net->params;
  real* g = net->grads;
  const Pool first_pool = pool2(count);
  // The gradient with respect to the score of a class is (probability - is_label) / number of images. is_label is 1 if
  // the class is the label of the image, otherwise 0.
  for (int i = 0; i < count * kClasses; ++i) net->d_scores[i] = net->scores[i] / (real)count;
  for (int r = 0; r < count; ++r) net->d_scores[r * kClasses + labels[r]] -= 1 / (real)count;
  linear_backward(count, kFeatures, kClasses, net->features, p + kW4, net->d_scores, g + kW4, g + kB4, net->d_features);
  pool_backward(&kPool3, count, net->d_features, net->d_hidden3);
  relu_backward(kChannels3 * count * kPixels / 4, net->hidden3, net->d_hidden3);
  conv_backward(&kConv3, count, p + kW3, net->d_hidden3, net->columns3, g + kW3, g + kB3, net->d_pooled2);
  pool_backward(&first_pool, count, net->d_pooled2, net->d_hidden2);
  relu_backward(kChannels2 * count * kPixels, net->hidden2, net->d_hidden2);
  conv_backward(&kConv2, count, p + kW2, net->d_hidden2, net->columns2, g + kW2, g + kB2, net->d_hidden1);
  relu_backward(kChannels1 * count * kPixels, net->hidden1, net->d_hidden1);
  conv_backward(&kConv1, count, p + kW1, net->d_hidden1, net->columns1, g + kW1, g + kB1, NULL);
  return loss / count;
}

double network_evaluate(Network* net, int count, const real* x, const int* labels, int* correct) {
  double loss = 0;
  *correct = 0;
  for (int first = 0; first < count; first += net->images) {
    const int n = count - first < net->images ? count - first : net->images;
    loss += forward(net, n, x + (size_t)first * kPixels, labels + first, correct);
  }
  return loss / count;
}
