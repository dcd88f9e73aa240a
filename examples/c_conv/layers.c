// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "layers.h"

#include <cblas.h>
#include <string.h>
#include <tgmath.h>

// Computes the m x n matrix c = A B from an m x k matrix A and a k x n matrix B. If a_form is kPlain, `a` contains A.
// If a_form is kTransposed, `a` contains the transpose of A. The same applies to b_form, `b` and B.
enum { kPlain = CblasNoTrans, kTransposed = CblasTrans };
static void multiply(int a_form, int b_form, int m, int n, int k, const real* a, const real* b, real* c) {
  const CBLAS_TRANSPOSE a_how = (CBLAS_TRANSPOSE)a_form, b_how = (CBLAS_TRANSPOSE)b_form;
  const int a_stride = a_form == kPlain ? k : m, b_stride = b_form == kPlain ? n : k;
  // real is float or double, so only one branch runs. The casts let the compiler accept both branches.
  if (sizeof(real) == sizeof(double)) {
    cblas_dgemm(CblasRowMajor, a_how, b_how, m, n, k, 1, (const double*)(const void*)a, a_stride,
                (const double*)(const void*)b, b_stride, 0, (double*)(void*)c, n);
  } else {
    cblas_sgemm(CblasRowMajor, a_how, b_how, m, n, k, 1, (const float*)(const void*)a, a_stride,
                (const float*)(const void*)b, b_stride, 0, (float*)(void*)c, n);
  }
}

// Computes column[i] = row[i + shift] for a row of an image. `shift` is -1, 0 or 1. Pixels outside of the row are 0.
static void read_shifted(int side, int shift, const real* row, real* column) {
  const int from = shift > 0 ? shift : 0, to = side + (shift < 0 ? shift : 0);
  if (shift < 0) column[0] = 0;
  if (shift > 0) column[side - 1] = 0;
  memcpy(column + from - shift, row + from, sizeof(real) * (size_t)(to - from));
}

// Applies the transpose of read_shifted() and adds the result to `row`.
static void add_shifted(int side, int shift, const real* column, real* row) {
  const int from = shift > 0 ? shift : 0, to = side + (shift < 0 ? shift : 0);
  for (int x = from; x < to; ++x) row[x] += column[x - shift];
}

// Writes the patches of x (see layers.h) to `columns`. Row (channel, ky, kx) of `columns` contains, for each pixel of
// the channel, the neighbor at the offset (ky - 1, kx - 1) from this pixel.
static void gather_patches(const Conv* conv, int images, const real* x, real* columns) {
  const int side = conv->side, pixels = side * side;
  for (int c = 0; c < conv->inputs; ++c) {
    for (int tap = 0; tap < kTaps; ++tap, columns += images * pixels) {
      const int dy = tap / 3 - 1, dx = tap % 3 - 1;
      for (int row = 0; row < images * side; ++row) {
        const int source = row % side + dy;
        if (source < 0 || source >= side) {
          memset(columns + row * side, 0, sizeof(real) * (size_t)side);
        } else {
          read_shifted(side, dx, x + (c * images * side + row + dy) * side, columns + row * side);
        }
      }
    }
  }
}

// Applies the transpose of gather_patches(): each pixel of x receives the sum of its copies in `columns`.
static void scatter_patches(const Conv* conv, int images, const real* columns, real* x) {
  const int side = conv->side, pixels = side * side;
  memset(x, 0, sizeof(real) * (size_t)(conv->inputs * images * pixels));
  for (int c = 0; c < conv->inputs; ++c) {
    for (int tap = 0; tap < kTaps; ++tap, columns += images * pixels) {
      const int dy = tap / 3 - 1, dx = tap % 3 - 1;
      for (int row = 0; row < images * side; ++row) {
        const int source = row % side + dy;
        if (source < 0 || source >= side) continue;
        add_shifted(side, dx, columns + row * side, x + (c * images * side + row + dy) * side);
      }
    }
  }
}

void conv_forward(const Conv* conv, int images, const real* x, const real* w, const real* b, real* columns, real* y) {
  const int pixels = images * conv->side * conv->side;
  gather_patches(conv, images, x, columns);
  multiply(kPlain, kPlain, conv->outputs, pixels, conv->inputs * kTaps, w, columns, y);
  for (int o = 0; o < conv->outputs; ++o) {
    for (int i = 0; i < pixels; ++i) y[o * pixels + i] += b[o];
  }
}

void conv_backward(const Conv* conv, int images, const real* w, const real* dy, real* columns, real* dw, real* db,
                   real* dx) {
  const int pixels = images * conv->side * conv->side;
  multiply(kPlain, kTransposed, conv->outputs, conv->inputs * kTaps, pixels, dy, columns, dw);
  for (int o = 0; o < conv->outputs; ++o) {
    db[o] = 0;
    for (int i = 0; i < pixels; ++i) db[o] += dy[o * pixels + i];
  }
  if (dx == NULL) return;
  multiply(kTransposed, kPlain, conv->inputs * kTaps, pixels, conv->outputs, w, dy, columns);
  scatter_patches(conv, images, columns, dx);
}

void relu_forward(int count, real* y) {
  for (int i = 0; i < count; ++i) y[i] = y[i] < 0 ? 0 : y[i];  // keeps NaN, so that the loss becomes NaN
}

void relu_backward(int count, const real* y, real* dy) {
  for (int i = 0; i < count; ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
}

void pool_forward(const Pool* pool, int images, const real* x, real* y) {
  const int side = pool->side, half = side / 2;
  for (int plane = 0; plane < pool->channels * images; ++plane, x += side * side) {
    real* out = y + plane / images * pool->channel_stride + plane % images * pool->image_stride;
    for (int i = 0; i < half * half; ++i) {
      const real* corner = x + 2 * (i / half) * side + 2 * (i % half);
      out[i] = (corner[0] + corner[1] + corner[side] + corner[side + 1]) / 4;
    }
  }
}

void pool_backward(const Pool* pool, int images, const real* dy, real* dx) {
  const int side = pool->side, half = side / 2;
  for (int plane = 0; plane < pool->channels * images; ++plane, dx += side * side) {
    const real* out = dy + plane / images * pool->channel_stride + plane % images * pool->image_stride;
    for (int i = 0; i < half * half; ++i) {
      real* corner = dx + 2 * (i / half) * side + 2 * (i % half);
      corner[0] = corner[1] = corner[side] = corner[side + 1] = out[i] / 4;
    }
  }
}

void linear_forward(int rows, int inputs, int outputs, const real* x, const real* w, const real* b, real* y) {
  multiply(kPlain, kTransposed, rows, outputs, inputs, x, w, y);
  for (int i = 0; i < rows * outputs; ++i) y[i] += b[i % outputs];
}

void linear_backward(int rows, int inputs, int outputs, const real* x, const real* w, const real* dy, real* dw,
                     real* db, real* dx) {
  multiply(kTransposed, kPlain, outputs, inputs, rows, dy, x, dw);
  multiply(kPlain, kPlain, rows, inputs, outputs, dy, w, dx);
  memset(db, 0, sizeof(real) * (size_t)outputs);
  for (int i = 0; i < rows * outputs; ++i) db[i % outputs] += dy[i];
}

double softmax(int classes, real* row, int label) {
  // The largest score is subtracted first so that no exponential overflows.
  real largest = row[0], sum = 0;
  for (int c = 1; c < classes; ++c) largest = row[c] > largest ? row[c] : largest;
  const double loss_score = (double)(row[label] - largest);
  for (int c = 0; c < classes; ++c) sum += row[c] = exp(row[c] - largest);
  for (int c = 0; c < classes; ++c) row[c] /= sum;
  return log((double)sum) - loss_score;
}
