// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/config/config.h"

namespace shampoo {

// Sets the keys in a string such as "lr = 0.1 grafting=adam": pairs of a key and a value, separated by blanks or line
// ends. "#" begins a comment that ends with its line. If a key occurs twice, its last value counts, except that two
// different presets are an error. On failure, the config is unchanged.
Status SetFromOptionText(const char* text, Config* config);

}  // namespace shampoo
