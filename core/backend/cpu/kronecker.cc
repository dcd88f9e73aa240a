// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/kronecker.h"

#include <algorithm>

#include "core/base/kernels/kernels.h"
#include "core/blas/blas.h"
#include "core/blas/rank_update.h"

namespace shampoo {
namespace {

// The shape of a block reduced to three dims: d is the length of dim k. `before` and `after` are the products of the
// lengths of the dims before and after dim k.
struct Unfolding {
  int64_t before = 1;
  int64_t d = 1;
  int64_t after = 1;
};

Unfolding Unfold(const Shape& shape, int k) {
  Unfolding u;
  for (int i = 0; i < k; ++i) u.before *= shape[i];
  u.d = shape[k];
  for (int i = k + 1; i < shape.ndim; ++i) u.after *= shape[i];
  return u;
}

// The smallest number of columns or rows in a part of a contraction. Each part reads the whole matrix X of the
// contraction. For a part of this length, reading X takes little time compared with the multiplications of the part.
constexpr int64_t kMinPartLength = 512;

// Returns the length of the parts into which `extent` rows, columns or slices (see kThin) are divided. A part has about
// kMinParallelProducts multiplications, but at least min_length rows, columns or slices. If `extent` is too small for
// two such parts, there is one part. cost: the number of multiplications for each row, column or slice.
int64_t PartLength(int64_t extent, int64_t cost, int64_t min_length) {
  const int64_t enough = std::max(min_length, kMinParallelProducts / std::max<int64_t>(cost, 1));
  const int64_t parts = std::max<int64_t>(extent / enough, 1);
  return (extent + parts - 1) / parts;
}

// Divides [0, extent) into parts of length `part`, and calls work(first, count) for each of them. The last part may be
// shorter.
template <typename Work>
void Divide(int64_t extent, int64_t part, Tiles* tiles, Work&& work) {
  const int64_t count = (extent + part - 1) / part;
  ForEachTile(tiles, count, [&](int64_t i) { work(i * part, std::min(part, extent - i * part)); });
}

// Computes C <- X B, or C <- X^T B if X is of form kGeneral. B and C have `columns` columns.
template <typename Real>
void FromLeft(const MatrixOperand<Real>& x, int64_t d, int64_t columns, const Real* b, int64_t ldb, Real* c,
              int64_t ldc) {
  if (x.form != MatrixForm::kSymmetricUpper) {
    const bool transposes = x.form == MatrixForm::kGeneral;
    blas::Gemm(blas::Product<Real>{transposes, false, Real{1}, Real{0}}, d, columns, d, x.data, x.ld, b, ldb, c, ldc);
  } else {
    blas::Symm(false, d, columns, x.data, x.ld, b, ldb, c, ldc);
  }
}

// Computes C <- B X, or C <- B X^T if X is of form kTransposed. B and C have `rows` rows.
template <typename Real>
void FromRight(const MatrixOperand<Real>& x, int64_t rows, int64_t d, const Real* b, int64_t ldb, Real* c) {
  if (x.form != MatrixForm::kSymmetricUpper) {
    const bool transposes = x.form == MatrixForm::kTransposed;
    blas::Gemm(blas::Product<Real>{false, transposes, Real{1}, Real{0}}, rows, d, d, b, ldb, x.data, x.ld, c, d);
  } else {
    blas::Symm(true, rows, d, x.data, x.ld, b, ldb, c, d);
  }
}

// The elements of a block with the same indices in the dims before dim k form a slice, a matrix of d x after. If
// `after` (9 for 3 x 3 convolution kernels) is less than kThin, a product for each slice would be narrow, and would
// read all of X (in ContractDim) or F (in UpdateFactor) again. The slices are transposed instead, so that all their
// columns become rows of one matrix.
constexpr int64_t kThin = 64;
// The approximate number of rows that the transposed slices of one product have together.
constexpr int64_t kRowsTogether = 128;
// The time to transpose an element, measured in multiplications.
constexpr int64_t kTransposeCost = 64;

// Transposes each of `count` matrices of rows x columns.
template <typename Real>
void TransposeEach(int64_t count, int64_t rows, int64_t columns, const Real* from, Real* to) {
  for (int64_t i = 0; i < count; ++i, from += rows * columns, to += rows * columns) {
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t row = 0; row < rows; ++row) to[column * rows + row] = from[row * columns + column];
    }
  }
}

template <typename Real>
void ContractThin(const Unfolding& u, const Real* in, const MatrixOperand<Real>& x, Real* out, Real* spare,
                  Tiles* tiles) {
  const int64_t slice = u.d * u.after;
  const int64_t together = std::max<int64_t>(kRowsTogether / u.after, 1);
  Divide(u.before, PartLength(u.before, slice * u.d, together), tiles, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i += together) {
      const int64_t slices = std::min(together, first + count - i);
      Real* const from = spare + i * slice;
      Real* const to = out + i * slice;
      TransposeEach(slices, u.d, u.after, in + i * slice, from);
      FromRight(x, slices * u.after, u.d, from, u.d, to);
      TransposeEach(slices, u.after, u.d, to, from);
      std::copy(from, from + slices * slice, to);
    }
  });
}

// Computes F <- decay F + weight g g^T in one pass over the lower triangle of F.
template <typename Real>
void UpdateByVector(int64_t d, const Real* g, Real decay, Real weight, Real* factor, int64_t ld, Tiles* tiles) {
  constexpr int64_t kShort = 16;  // up to this size, calling the kernel would take longer than its computation
  if (d <= kShort) {
    for (int64_t i = 0; i < d; ++i) {
      Real* const row = factor + i * ld;
      const Real scaled = weight * g[i];
      for (int64_t j = 0; j <= i; ++j) row[j] = decay * row[j] + scaled * g[j];
    }
    return;
  }
  const KernelsOf<Real>& kernels = BestKernels().Of<Real>();
  Divide(d, std::max<int64_t>(256, (int64_t{1} << 19) / d), tiles, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) kernels.accumulate(decay, factor + i * ld, weight * g[i], g, i + 1);
  });
}

// Returns a pointer to the n elements of a tensor, stored without gaps. A matrix with one column may have gaps, because
// its rows are tensor.ld elements apart; its elements are then copied to `spare`. Must not be called for a matrix with
// several rows and columns.
template <typename Real>
const Real* AsVector(const Shape& shape, const BlockData<Real>& tensor, int64_t n, Real* spare) {
  if (shape.ndim != 2 || shape[1] != 1 || tensor.ld == 1) return tensor.data;
  for (int64_t i = 0; i < n; ++i) spare[i] = tensor.data[i * tensor.ld];
  return spare;
}

}  // namespace

template <typename Real>
void UpdateFactor(const Shape& shape, int k, const BlockData<Real>& g, Real decay, Real weight, Real* factor,
                  int64_t ld, Real* spare, Tiles* tiles) {
  const Unfolding u = Unfold(shape, k);
  if (u.d == 1) {
    const int64_t n = u.before * u.after;
    const double square = BestKernels().Of<Real>().sum_of_squares(AsVector(shape, g, n, spare), n);
    factor[0] = decay * factor[0] + weight * static_cast<Real>(square);
  } else if (u.before * u.after == 1) {
    UpdateByVector(u.d, AsVector(shape, g, u.d, spare), decay, weight, factor, ld, tiles);
  } else if (shape.ndim == 2) {
    const bool columns = k == 1;
    blas::Update<Real>({columns, u.d, columns ? u.before : u.after, weight, g.data, g.ld, decay, factor, ld}, tiles);
  } else if (u.after == 1) {
    blas::Update<Real>({true, u.d, u.before, weight, g.data, u.d, decay, factor, ld}, tiles);
  } else if (u.before > 1 && u.after < kThin) {
    const int64_t slice = u.d * u.after;
    Divide(u.before, PartLength(u.before, kTransposeCost * slice, 1), tiles, [&](int64_t first, int64_t count) {
      TransposeEach(count, u.d, u.after, g.data + first * slice, spare + first * slice);
    });
    blas::Update<Real>({true, u.d, u.before * u.after, weight, spare, u.d, decay, factor, ld}, tiles);
  } else {
    for (int64_t i = 0; i < u.before; ++i) {
      blas::Update<Real>(
          {false, u.d, u.after, weight, g.data + i * u.d * u.after, u.after, i == 0 ? decay : Real{1}, factor, ld},
          tiles);
    }
  }
}

template <typename Real>
void ContractDim(const Shape& shape, int k, const BlockData<Real>& in, const MatrixOperand<Real>& x, Real* out,
                 Real* spare, Tiles* tiles) {
  const Unfolding u = Unfold(shape, k);
  const int64_t square = u.d * u.d;
  if (u.d == 1) {
    const int64_t n = u.before * u.after;
    const Real* const elements = AsVector(shape, in, n, spare);
    BestKernels().Of<Real>().load(x.data[0], elements, Real{0}, nullptr, out, n);
  } else if (u.before * u.after == 1) {
    const Real* const vector = AsVector(shape, in, u.d, spare);
    if (x.form != MatrixForm::kSymmetricUpper) {
      // Gemv takes less than half the time of Symv.
      blas::Gemv(x.form == MatrixForm::kGeneral, u.d, x.data, vector, out);
    } else {
      blas::Symv(true, u.d, x.data, x.ld, vector, out);
    }
  } else if (shape.ndim == 2 ? k == 1 : u.after == 1) {
    const int64_t ld = shape.ndim == 2 ? in.ld : u.d;
    Divide(u.before, PartLength(u.before, square, kMinPartLength), tiles, [&](int64_t first, int64_t count) {
      FromRight(x, count, u.d, in.data + first * ld, ld, out + first * u.d);
    });
  } else if (u.before == 1) {
    const int64_t ld = shape.ndim == 2 ? in.ld : u.after;
    Divide(u.after, PartLength(u.after, square, kMinPartLength), tiles,
           [&](int64_t first, int64_t count) { FromLeft(x, u.d, count, in.data + first, ld, out + first, u.after); });
  } else if (u.after < kThin) {
    ContractThin(u, in.data, x, out, spare, tiles);
  } else {
    Divide(u.before, PartLength(u.before, square * u.after, 1), tiles, [&](int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i) {
        const int64_t slice = i * u.d * u.after;
        FromLeft(x, u.d, u.after, in.data + slice, u.after, out + slice, u.after);
      }
    });
  }
}

template void UpdateFactor<float>(const Shape&, int, const BlockData<float>&, float, float, float*, int64_t, float*,
                                  Tiles*);
template void UpdateFactor<double>(const Shape&, int, const BlockData<double>&, double, double, double*, int64_t,
                                   double*, Tiles*);
template void ContractDim<float>(const Shape&, int, const BlockData<float>&, const MatrixOperand<float>&, float*,
                                 float*, Tiles*);
template void ContractDim<double>(const Shape&, int, const BlockData<double>&, const MatrixOperand<double>&, double*,
                                  double*, Tiles*);

}  // namespace shampoo
