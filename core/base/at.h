// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>

namespace shampoo {

// Returns the element of an array or a vector at an index of any integer type, such as a rank or a dim.
// Requires 0 <= index < the container's size.
template <typename Container, std::integral Index>
constexpr decltype(auto) At(Container& container, Index index) {
  return (container[static_cast<size_t>(index)]);
}

}  // namespace shampoo
