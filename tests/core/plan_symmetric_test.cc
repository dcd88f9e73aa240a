// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "core/plan/memory_layout.h"
#include "core/plan/symmetric.h"
#include "tests/core/plan_test_util.h"

namespace shampoo {
namespace {

constexpr SymmetricForm kForms[] = {SymmetricForm::kSquare, SymmetricForm::kLower, SymmetricForm::kUpper,
                                    SymmetricForm::kPackedLower, SymmetricForm::kPackedUpper};

TEST_CASE("each storage form of a symmetric matrix stores the elements of one triangle at distinct positions") {
  for (const SymmetricForm form : kForms) {
    for (const int64_t d : {1, 2, 3, 10}) {
      CAPTURE(static_cast<int>(form));
      std::set<int64_t> places;
      for (int64_t i = 0; i < d; ++i) {
        const SymmetricRow row = RowOf(form, d, i);
        for (int64_t j = 0; j < d; ++j) {
          const int64_t at = KeptAt(form, d, i, j);
          CHECK(at == KeptAt(form, d, j, i));
          CHECK(at >= 0);
          CHECK(at < SpanElements(form, d));
          places.insert(at);
          // A row stores consecutive elements. With kSquare, KeptAt() returns positions of the lower triangle only.
          if (j >= row.column && j < row.column + row.count && form != SymmetricForm::kSquare) {
            CHECK(at == row.first + j - row.column);
          }
        }
      }
      CHECK(static_cast<int64_t>(places.size()) == d * (d + 1) / 2);
    }
  }
}

TEST_CASE("a factor matrix and its inverse root share an array without overlap") {
  for (const int64_t d : {1, 2, 5}) {
    std::set<int64_t> places;
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        CHECK(places.insert(KeptAt(SymmetricForm::kLower, d, i, j)).second);
        CHECK(places.insert(KeptAt(SymmetricForm::kUpper, d, i, j)).second);
      }
    }
    CHECK(static_cast<int64_t>(places.size()) == SpanElements(SymmetricForm::kLower, d));
  }
}

TEST_CASE("only one triangle of a large factor matrix and of its inverse root is stored, with any dtype") {
  for (const int64_t d : {kPackedFrom - 1, kPackedFrom, int64_t{500}}) {
    for (const Dtype inverse : {Dtype::kF32, Dtype::kBf16}) {
      Settings settings;
      settings.beta1 = 0;
      settings.factor_dtype = Dtype::kF32;
      settings.inverse_dtype = inverse;
      Block block;
      block.shape = Shape::Of({d});
      block.elements = d;
      LayOutBlock(settings, Dtype::kF32, &block);
      const int64_t kept = d < kPackedFrom ? d * d : d * (d + 1) / 2;
      const int64_t bytes = kept * static_cast<int64_t>(4 + SizeOf(inverse));
      CHECK(block.state_bytes >= bytes);
      CHECK(block.state_bytes < bytes + 4 * kStateAlignment);
    }
  }
}

}  // namespace
}  // namespace shampoo
