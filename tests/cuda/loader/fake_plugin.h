// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/interface.h"

namespace shampoo_test {

// The name and the type of a function that each fake plugin exports. The function returns a pointer to the Description
// that the plugin reports to the library. Tests can change this Description.
inline constexpr char kFakeSymbol[] = "shampoo_fake_description";
using FakeFunction = shampoo::cuda::Description* (*)();

}  // namespace shampoo_test
