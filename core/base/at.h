// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>

namespace shampoo {

// Returns element `index` of an array or a vector. The index may have any integer type, for example the type of a
// rank or a dim. Requires that `index` is at least 0 and less than the size of the container.
template <typename Container, std::integral Index>
constexpr decltype(auto) At(Container& container, Index index) {
  return (container[static_cast<size_t>(index)]);
}

}  // namespace shampoo
