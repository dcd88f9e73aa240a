// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/interface.h"

namespace shampoo_test {

// The name and the type of the function of a fake plugin that returns what the plugin reports about the machine.
inline constexpr char kFakeSymbol[] = "shampoo_fake_description";
using FakeFunction = shampoo::cuda::Description* (*)();

}  // namespace shampoo_test
