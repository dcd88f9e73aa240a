// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace shampoo {

inline constexpr int kMaxDims = 8;

// The dims of a row-major tensor, outermost first; ndim 0 is a scalar with one element. Entries of `dims` from ndim on
// are 0, so that equal shapes compare equal. The functions of this folder take shapes whose dims are >= 1 and whose
// product fits int64_t: whoever accepts shapes from outside checks that first (CheckedProduct).
struct Shape {
  int ndim = 0;
  std::array<int64_t, kMaxDims> dims{};

  // At most kMaxDims dims.
  static Shape Of(std::span<const int64_t> dims);
  static Shape Of(std::initializer_list<int64_t> dims);

  int64_t operator[](int dim) const { return dims[static_cast<size_t>(dim)]; }
  int64_t& operator[](int dim) { return dims[static_cast<size_t>(dim)]; }
  bool operator==(const Shape&) const = default;

  // One more, innermost dim; ndim < kMaxDims before.
  void Append(int64_t dim);

  // Number of elements; 1 if ndim is 0.
  int64_t Product() const;

  // The shape without its first `count` dims; 0 <= count <= ndim.
  Shape DropFront(int count) const;

  std::span<const int64_t> View() const { return {dims.data(), static_cast<size_t>(ndim)}; }
};

// Elements from one index to the next, per dim, in a dense row-major tensor; 0 from ndim on.
std::array<int64_t, kMaxDims> RowMajorStrides(const Shape& shape);

// The number of elements of a shape whose dims are >= 0; false if it exceeds int64_t, and then *product is untouched.
// A dim of 0 makes the product 0, whatever the other dims are.
bool CheckedProduct(const Shape& shape, int64_t* product);

}  // namespace shampoo
