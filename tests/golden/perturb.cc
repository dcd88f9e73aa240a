// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/perturb.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shampoo::golden {
namespace {

// Calls work(elements, count) if the dtype is float32 or float64. Does nothing for other dtypes.
template <typename Work>
void OnWide(Tensor* tensor, const Work& work) {
  const auto count = static_cast<size_t>(ElementCount(tensor->shape));
  if (tensor->dtype == "F64") work(reinterpret_cast<double*>(tensor->bytes.data()), count);
  if (tensor->dtype == "F32") work(reinterpret_cast<float*>(tensor->bytes.data()), count);
}

}  // namespace

void PerturbElements(Tensor* tensor, std::mt19937_64* random) {
  OnWide(tensor, [random](auto* elements, size_t count) {
    using Real = std::remove_pointer_t<decltype(elements)>;
    constexpr int kMostUnits = 2;
    for (size_t i = 0; i < count; ++i) {
      const int units = static_cast<int>((*random)() % (2 * kMostUnits + 1)) - kMostUnits;
      if (elements[i] == 0 || !std::isfinite(elements[i])) continue;
      const Real limit = units < 0 ? -std::numeric_limits<Real>::max() : std::numeric_limits<Real>::max();
      for (int unit = 0; unit < std::abs(units); ++unit) elements[i] = std::nextafter(elements[i], limit);
    }
  });
}

void PerturbMatrix(Tensor* matrix, std::mt19937_64* random) {
  OnWide(matrix, [&](auto* elements, size_t count) {
    using Real = std::remove_pointer_t<decltype(elements)>;
    Real largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(elements[i]));
    const Real bound = static_cast<Real>(matrix->shape.back()) * std::numeric_limits<Real>::epsilon() * largest;
    std::uniform_real_distribution<Real> change(-1, 1);
    for (size_t i = 0; i < count; ++i) {
      const Real own = bound * change(*random);
      if (elements[i] != 0) elements[i] += own;
    }
  });
}

}  // namespace shampoo::golden
