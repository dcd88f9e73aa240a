// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "layers.h"

void linear_forward(int n, int inputs, int outputs, const real* x, const real* weight, real beta, real* y) {
  multiply(kAsIs, kTransposed, n, outputs, inputs, 1, x, inputs, weight, inputs, beta, y, outputs);
}

void linear_backward(int n, int inputs, int outputs, const real* x, const real* weight, const real* d_y, real* d_weight,
                     real* d_x) {
  multiply(kTransposed, kAsIs, outputs, inputs, n, 1, d_y, outputs, x, inputs, 1, d_weight, inputs);
  multiply(kAsIs, kAsIs, n, inputs, outputs, 1, d_y, outputs, weight, inputs, 0, d_x, inputs);
}

void norm_forward(int n, int width, const real* x, const real* gain, const real* bias, real* y, real* stats) {
  for (int r = 0; r < n; ++r, x += width, y += width) {
    const real mean = sum(width, x) / (real)width;
    for (int i = 0; i < width; ++i) y[i] = x[i] - mean;
    const real scale = 1 / (real)sqrt((double)(dot(width, y, y) / (real)width) + 1e-5);
    for (int i = 0; i < width; ++i) y[i] = gain[i] * (y[i] * scale) + bias[i];
    stats[2 * r] = mean;
    stats[2 * r + 1] = scale;
  }
}

// Adds scale * (e - e_mean - h * eh_mean) to d_x, where h is (x - mean) * scale and e is gain * d_y. For each row of x,
// stats contains the mean and `scale`, the inverse of the standard deviation. e_mean and eh_mean are the means of e and
// e * h over the row.
void norm_backward(int n, int width, const real* x, const real* gain, const real* stats, const real* d_y, real* d_gain,
                   real* d_bias, real* d_x) {
  for (int r = 0; r < n; ++r, x += width, d_y += width, d_x += width) {
    const real mean = stats[2 * r], scale = stats[2 * r + 1];
    const real e_mean = dot(width, gain, d_y) / (real)width;
    real lanes[kLanes] = {0};
    for (int i = 0; i < width; ++i) {
      const real h = (x[i] - mean) * scale;
      d_bias[i] += d_y[i];
      d_gain[i] += d_y[i] * h;
    }
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) lanes[j] += gain[i + j] * d_y[i + j] * ((x[i + j] - mean) * scale);
    }
    for (; i < width; ++i) lanes[0] += gain[i] * d_y[i] * ((x[i] - mean) * scale);
    const real eh_mean = add_lanes(lanes) / (real)width;
    for (i = 0; i < width; ++i) {
      const real h = (x[i] - mean) * scale;
      d_x[i] += scale * (gain[i] * d_y[i] - e_mean - h * eh_mean);
    }
  }
}

static const real kGeluScale = (real)1.5957691216057308;  // 2 * sqrt(2 / pi)
static const real kGeluCubic = (real)0.044715;

void gelu_forward(size_t count, const real* x, real* y) {
  for (size_t i = 0; i < count; ++i) {
    const real u = x[i], z = kGeluScale * (u + kGeluCubic * u * u * u);
    y[i] = u / (1 + exponential(-z));
  }
}

void gelu_backward(size_t count, const real* x, real* d) {
  for (size_t i = 0; i < count; ++i) {
    const real u = x[i], z = kGeluScale * (u + kGeluCubic * u * u * u);
    const real gate = 1 / (1 + exponential(-z));
    d[i] *= gate + u * gate * (1 - gate) * kGeluScale * (1 + 3 * kGeluCubic * u * u);
  }
}

// The gradient of a row's loss with respect to a score is probability - is_target. is_target is 1 for the score of the
// target, and 0 for all other scores.
double cross_entropy(int n, int vocab, real* scores, const uint8_t* targets, real scale) {
  double loss = 0;
  for (int r = 0; r < n; ++r, scores += vocab) {
    const real top = largest(vocab, scores);  // subtracted from each score, so that no exponential overflows
    const double target_score = (double)(scores[targets[r]] - top);
    for (int c = 0; c < vocab; ++c) scores[c] = exponential(scores[c] - top);
    const real total = sum(vocab, scores);
    loss += log((double)total) - target_score;
    for (int c = 0; c < vocab; ++c) scores[c] *= scale / total;
    scores[targets[r]] -= scale;
  }
  return loss;
}
