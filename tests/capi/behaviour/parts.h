// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numeric>
#include <vector>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {

// Checks that the steps of `one` and `many` are bit-identical. `one` has one parameter, and `many` has the parts of
// this parameter as separate parameters. Element i of `many`, counted through all its parameters, corresponds to
// element order[i] of `one`, or to element i if `order` is empty.
inline void CheckSame(Host* one, Host* many, std::vector<size_t> order = {}) {
  if (order.empty()) {
    order.resize(one->tensors[0].w.size());
    std::iota(order.begin(), order.end(), size_t{0});
  }
  const auto scatter = [&](Array Host::Tensors::*values) {
    size_t at = 0;
    for (Host::Tensors& tensor : many->tensors) {
      for (size_t i = 0; i < (tensor.*values).size(); ++i) {
        (tensor.*values).Set(i, (one->tensors[0].*values).Get(order[at++]));
      }
    }
    REQUIRE(at == order.size());
  };
  std::mt19937_64 random = one->FillFrom(order.size());
  scatter(&Host::Tensors::w);
  for (int t = 0; t < 5; ++t) {
    one->FillGradients(random);
    scatter(&Host::Tensors::g);
    one->Step();
    many->Step();
  }
  size_t at = 0;
  bool is_same = true;
  for (const Host::Tensors& tensor : many->tensors) {
    for (const double value : tensor.w.Values()) is_same &= value == one->tensors[0].w.Get(order[at++]);
  }
  CHECK(is_same);
}

}  // namespace shampoo_test
