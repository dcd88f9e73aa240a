// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "network.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "random.h"

const Tensor tensors[kTensors] = {
    {"layer1.weight", 2, {kHidden1, kInputs}, kWeight1},  {"layer1.bias", 1, {kHidden1}, kBias1},
    {"layer2.weight", 2, {kHidden2, kHidden1}, kWeight2}, {"layer2.bias", 1, {kHidden2}, kBias2},
    {"layer3.weight", 2, {kClasses, kHidden2}, kWeight3}, {"layer3.bias", 1, {kClasses}, kBias3},
};

static int outputs_of(int layer) { return tensors[2 * layer].shape[0]; }
static int inputs_of(int layer) { return tensors[2 * layer].shape[1]; }
static float* weight(const Network* net, int layer) { return net->params + tensors[2 * layer].offset; }
static float* bias(const Network* net, int layer) { return net->params + tensors[2 * layer + 1].offset; }

void network_create(Network* net, int rows, uint64_t* random_state) {
  net->rows = rows;
  net->params = allocate(kValues, sizeof(float));
  net->grads = allocate(kValues, sizeof(half));
  net->wide = allocate(kValues, sizeof(float));
  for (int l = 0; l < kLayers; ++l) {
    const int inputs = inputs_of(l), outputs = outputs_of(l);
    const double bound = sqrt(6.0 / (inputs + outputs));
    net->outputs[l] = allocate((size_t)(rows * outputs), sizeof(float));
    net->gradients[l] = allocate((size_t)(rows * outputs), sizeof(float));
    for (int i = 0; i < outputs * inputs; ++i) {
      weight(net, l)[i] = (float)(bound * (2 * random_uniform(random_state) - 1));
    }
  }
}

void network_free(Network* net) {
  for (int l = 0; l < kLayers; ++l) {
    free(net->outputs[l]);
    free(net->gradients[l]);
  }
  free(net->wide);
  free(net->grads);
  free(net->params);
}

// Replaces a row of scores by probabilities and returns the cross entropy -log(probability of the label). The largest
// score is subtracted first so that no exponential overflows.
static double softmax(float* row, int label, int* correct) {
  int best = 0;
  float sum = 0;
  for (int c = 1; c < kClasses; ++c) best = row[c] > row[best] ? c : best;
  const float largest = row[best], score = row[label] - largest;
  for (int c = 0; c < kClasses; ++c) sum += row[c] = expf(row[c] - largest);
  for (int c = 0; c < kClasses; ++c) row[c] /= sum;
  *correct += best == label;
  return log((double)sum) - (double)score;
}

double network_forward(Network* net, int count, const float* x, const int* labels, int* correct) {
  double loss = 0;
  *correct = 0;
  for (int l = 0; l < kLayers; ++l) {
    const int inputs = inputs_of(l), outputs = outputs_of(l);
    float* y = net->outputs[l];
    for (int i = 0; i < count * outputs; ++i) y[i] = bias(net, l)[i % outputs];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, count, outputs, inputs, 1, l > 0 ? net->outputs[l - 1] : x,
                inputs, weight(net, l), inputs, 1, y, outputs);
    for (int i = 0; l < kLayers - 1 && i < count * outputs; ++i) y[i] = tanhf(y[i]);
  }
  for (int r = 0; r < count; ++r) loss += softmax(net->outputs[kLayers - 1] + r * kClasses, labels[r], correct);
  return loss;
}

// Rounds to the nearest binary16, ties to even. Overflow gives infinity.
static half to_half(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000u;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return (half)(sign | kHalfNaN);
  if (bits >= 0x477ff000u) return (half)(sign | kHalfInfinity);  // 65520 and above round to infinity
  // Below 2^-14, binary16 numbers are multiples of 2^-24.
  if (bits < 0x38800000u) return (half)(sign | (uint32_t)lrintf(fabsf(x) * 0x1p24f));
  bits += 0x0fffu + (bits >> 13 & 1u);               // rounds off the low 13 bits; a carry goes into the exponent
  return (half)(sign | (bits - 0x38000000u) >> 13);  // the exponent bias is 127 in float32, 15 in binary16
}

// Converts net->wide, the gradient of tensor t in float32, to binary16 and stores it in net->grads.
static void store(Network* net, int t, int count) {
  for (int i = 0; i < count; ++i) net->grads[tensors[t].offset + i] = to_half(net->wide[i]);
}

void network_backward(Network* net, int count, const float* x, const int* labels, float loss_scale) {
  // The gradient with respect to the score of a class is (probability - is_label) / number of images, times loss_scale.
  // is_label is 1 if the class is the label of the image, otherwise 0.
  for (int i = 0; i < count * kClasses; ++i) {
    const float probability = net->outputs[kLayers - 1][i];
    const int is_label = i % kClasses == labels[i / kClasses];
    net->gradients[kLayers - 1][i] = loss_scale * (probability - (float)is_label) / (float)count;
  }
  for (int l = kLayers - 1; l >= 0; --l) {
    const int inputs = inputs_of(l), outputs = outputs_of(l);
    const float* dy = net->gradients[l];
    const float* input = l > 0 ? net->outputs[l - 1] : x;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, inputs, count, 1, dy, outputs, input, inputs, 0,
                net->wide, inputs);
    store(net, 2 * l, outputs * inputs);
    for (int o = 0; o < outputs; ++o) {
      net->wide[o] = 0;
      for (int r = 0; r < count; ++r) net->wide[o] += dy[r * outputs + o];
    }
    store(net, 2 * l + 1, outputs);
    if (l == 0) break;
    float* dx = net->gradients[l - 1];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, count, inputs, outputs, 1, dy, outputs, weight(net, l),
                inputs, 0, dx, inputs);
    for (int i = 0; i < count * inputs; ++i) dx[i] *= 1 - input[i] * input[i];  // tanh' = 1 - tanh^2
  }
}

int network_gradients_finite(const Network* net) {
  for (int i = 0; i < kValues; ++i) {
    if ((net->grads[i] & kHalfInfinity) == kHalfInfinity) return 0;  // NaN or infinity: all exponent bits are 1
  }
  return 1;
}

double network_accuracy(Network* net, int count, const float* x, const int* labels) {
  int hits = 0;
  for (int first = 0; first < count; first += net->rows) {
    const int n = count - first < net->rows ? count - first : net->rows;
    int correct;
    network_forward(net, n, x + (size_t)first * kInputs, labels + first, &correct);
    hits += correct;
  }
  return (double)hits / count;
}
