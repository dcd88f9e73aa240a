// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "mlp.h"

#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#include "check.h"
#include "random.h"

enum {
  kW1 = 0,
  kB1 = kW1 + kHidden1 * kInputs,
  kW2 = kB1 + kHidden1,
  kB2 = kW2 + kHidden2 * kHidden1,
  kW3 = kB2 + kHidden2,
  kB3 = kW3 + kClasses * kHidden2
};

const MlpTensor mlp_tensors[kTensors] = {
    {"W1", 2, {kHidden1, kInputs}, kW1}, {"b1", 1, {kHidden1}, kB1},           {"W2", 2, {kHidden2, kHidden1}, kW2},
    {"b2", 1, {kHidden2}, kB2},          {"W3", 2, {kClasses, kHidden2}, kW3}, {"b3", 1, {kClasses}, kB3},
};

void mlp_create(Mlp* net, int rows) {
  const size_t n = (size_t)rows;
  net->rows = rows;
  net->params = allocate(kValues, sizeof(real));
  net->grads = allocate(kValues, sizeof(real));
  net->hidden1 = allocate(n * kHidden1, sizeof(real));
  net->hidden2 = allocate(n * kHidden2, sizeof(real));
  net->scores = allocate(n * kClasses, sizeof(real));
  net->d1 = allocate(n * kHidden1, sizeof(real));
  net->d2 = allocate(n * kHidden2, sizeof(real));
  net->d3 = allocate(n * kClasses, sizeof(real));
}

void mlp_free(Mlp* net) {
  real* const buffers[] = {net->params, net->grads, net->hidden1, net->hidden2, net->scores, net->d1, net->d2, net->d3};
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; ++i) free(buffers[i]);
}

void mlp_init(Mlp* net, uint64_t* random_state) {
  for (int t = 0; t < kTensors; ++t) {
    const MlpTensor* tensor = &mlp_tensors[t];
    real* values = net->params + tensor->offset;
    const int outputs = tensor->shape[0], inputs = tensor->ndim == 2 ? tensor->shape[1] : 1;
    const double bound = tensor->ndim == 2 ? sqrt(6.0 / (inputs + outputs)) : 0.0;
    for (int i = 0; i < outputs * inputs; ++i) values[i] = (real)(bound * (2.0 * random_uniform(random_state) - 1.0));
  }
}

// Returns the sum of a[i] * b[i]. A compiler can compute the eight partial sums with vector instructions. It must not
// split a single sum into partial sums, because the split would change the rounding.
static real dot(int n, const real* a, const real* b) {
  real sums[8] = {0};
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int j = 0; j < 8; ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// Computes y [n][outputs] = x [n][inputs] W^T + b.
static void layer_forward(int n, int inputs, int outputs, const real* x, const real* w, const real* b, real* y) {
  for (int r = 0; r < n; ++r) {
    for (int o = 0; o < outputs; ++o) y[r * outputs + o] = b[o] + dot(inputs, x + r * inputs, w + o * inputs);
  }
}

// Computes dw [outputs][inputs] = dy^T x and dx [n][inputs] = dy W. Writes the sums of the columns of dy to db
// [outputs]. dx is NULL in the first layer, because the gradient with respect to the images is not needed.
static void layer_backward(int n, int inputs, int outputs, const real* x, const real* w, const real* dy, real* dw,
                           real* db, real* dx) {
  memset(dw, 0, sizeof(real) * (size_t)(outputs * inputs));
  memset(db, 0, sizeof(real) * (size_t)outputs);
  if (dx != NULL) memset(dx, 0, sizeof(real) * (size_t)(n * inputs));
  for (int r = 0; r < n; ++r) {
    for (int o = 0; o < outputs; ++o) {
      const real d = dy[r * outputs + o];
      db[o] += d;
      for (int i = 0; i < inputs; ++i) dw[o * inputs + i] += d * x[r * inputs + i];
      if (dx == NULL) continue;
      for (int i = 0; i < inputs; ++i) dx[r * inputs + i] += d * w[o * inputs + i];
    }
  }
}

static void tanh_forward(int n, real* y) {
  for (int i = 0; i < n; ++i) y[i] = tanh(y[i]);
}

// Multiplies dy by the derivative of tanh, which is 1 - y^2, because y is the output of tanh.
static void tanh_backward(int n, const real* y, real* dy) {
  for (int i = 0; i < n; ++i) dy[i] *= 1 - y[i] * y[i];
}

// Replaces a row of scores by probabilities and returns the cross entropy -log(probability of the label). The largest
// score is subtracted first so that no exponential overflows.
static double softmax(real* row, int label) {
  real largest = row[0], sum = 0;
  for (int c = 1; c < kClasses; ++c) largest = row[c] > largest ? row[c] : largest;
  const double loss_score = (double)(row[label] - largest);
  for (int c = 0; c < kClasses; ++c) sum += row[c] = exp(row[c] - largest);
  for (int c = 0; c < kClasses; ++c) row[c] /= sum;
  return log((double)sum) - loss_score;
}

static double forward(Mlp* net, int n, const real* x, const int* labels, int* correct) {
  const real* p = net->params;
  layer_forward(n, kInputs, kHidden1, x, p + kW1, p + kB1, net->hidden1);
  tanh_forward(n * kHidden1, net->hidden1);
  layer_forward(n, kHidden1, kHidden2, net->hidden1, p + kW2, p + kB2, net->hidden2);
  tanh_forward(n * kHidden2, net->hidden2);
  layer_forward(n, kHidden2, kClasses, net->hidden2, p + kW3, p + kB3, net->scores);
  double loss = 0;
  for (int r = 0; r < n; ++r) {
    real* row = net->scores + r * kClasses;
    int best = 0;
    for (int c = 1; c < kClasses; ++c) best = row[c] > row[best] ? c : best;
    *correct += best == labels[r];
    loss += softmax(row, labels[r]);
  }
  return loss;
}

double mlp_gradient(Mlp* net, int count, const real* x, const int* labels) {
  int correct = 0;
  const double loss = forward(net, count, x, labels, &correct);
  const real* p = net->params;
  real* g = net->grads;
  // The gradient with respect to the score of a class is (probability - is_label) / number of images. is_label is 1 if
  // the class is the label of the image, otherwise 0.
  for (int i = 0; i < count * kClasses; ++i) net->d3[i] = net->scores[i] / (real)count;
  for (int r = 0; r < count; ++r) net->d3[r * kClasses + labels[r]] -= 1 / (real)count;
  layer_backward(count, kHidden2, kClasses, net->hidden2, p + kW3, net->d3, g + kW3, g + kB3, net->d2);
  tanh_backward(count * kHidden2, net->hidden2, net->d2);
  layer_backward(count, kHidden1, kHidden2, net->hidden1, p + kW2, net->d2, g + kW2, g + kB2, net->d1);
  tanh_backward(count * kHidden1, net->hidden1, net->d1);
  layer_backward(count, kInputs, kHidden1, x, p + kW1, net->d1, g + kW1, g + kB1, NULL);
  return loss / count;
}

double mlp_evaluate(Mlp* net, int count, const real* x, const int* labels, int* correct) {
  double loss = 0;
  *correct = 0;
  for (int first = 0; first < count; first += net->rows) {
    const int n = count - first < net->rows ? count - first : net->rows;
    loss += forward(net, n, x + (size_t)first * kInputs, labels + first, correct);
  }
  return loss / count;
}
