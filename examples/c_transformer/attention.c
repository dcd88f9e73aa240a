// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "attention.h"

#include <stddef.h>

// Replaces the scores [length][length] of one head by weights. In row r, columns 0 to r of the weights are the
// softmax of the same columns of the scores. The later columns are 0.
static void causal_softmax(int length, real* scores) {
  for (int r = 0; r < length; ++r, scores += length) {
    const real top = largest(r + 1, scores);
    for (int c = 0; c <= r; ++c) scores[c] = exponential(scores[c] - top);
    const real scale = 1 / sum(r + 1, scores);
    for (int c = 0; c <= r; ++c) scores[c] *= scale;
    for (int c = r + 1; c < length; ++c) scores[c] = 0;
  }
}

// Replaces d, the gradient with respect to the weights, by the gradient with respect to the scores:
// d_score = weight * (d_weight - sum of weight * d_weight over the row).
static void causal_softmax_backward(int length, const real* weights, real* d) {
  for (int r = 0; r < length; ++r, weights += length, d += length) {
    const real mean = dot(r + 1, weights, d);
    for (int c = 0; c <= r; ++c) d[c] = weights[c] * (d[c] - mean);
    for (int c = r + 1; c < length; ++c) d[c] = 0;
  }
}

void attention_forward(int sequences, int length, int width, int heads, const real* qkv, real* weights, real* y) {
  const int size = width / heads, row = 3 * width;
  const real scale = (real)(1 / sqrt((double)size));
  for (int s = 0; s < sequences; ++s) {
    for (int h = 0; h < heads; ++h, weights += (size_t)length * (size_t)length) {
      const real* query = qkv + (size_t)s * (size_t)length * (size_t)row + h * size;
      const real *key = query + width, *value = key + width;
      real* out = y + (size_t)s * (size_t)length * (size_t)width + h * size;
      multiply(kAsIs, kTransposed, length, length, size, scale, query, row, key, row, 0, weights, length);
      causal_softmax(length, weights);
      multiply(kAsIs, kAsIs, length, size, length, 1, weights, length, value, row, 0, out, width);
    }
  }
}

void attention_backward(int sequences, int length, int width, int heads, const real* qkv, const real* weights,
                        const real* d_y, real* d_weights, real* d_qkv) {
  const int size = width / heads, row = 3 * width;
  const real scale = (real)(1 / sqrt((double)size));
  for (int s = 0; s < sequences; ++s) {
    for (int h = 0; h < heads; ++h, weights += (size_t)length * (size_t)length) {
      const size_t head = (size_t)s * (size_t)length * (size_t)row + (size_t)(h * size);
      const real *query = qkv + head, *key = query + width, *value = key + width;
      real *d_query = d_qkv + head, *d_key = d_query + width, *d_value = d_key + width;
      const real* d_out = d_y + (size_t)s * (size_t)length * (size_t)width + h * size;
      multiply(kTransposed, kAsIs, length, size, length, 1, weights, length, d_out, width, 0, d_value, row);
      multiply(kAsIs, kTransposed, length, length, size, 1, d_out, width, value, row, 0, d_weights, length);
      causal_softmax_backward(length, weights, d_weights);
      multiply(kAsIs, kAsIs, length, size, length, scale, d_weights, length, key, row, 0, d_query, row);
      multiply(kTransposed, kAsIs, length, size, length, scale, d_weights, length, query, row, 0, d_key, row);
    }
  }
}
