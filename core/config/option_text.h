// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/config/config.h"

namespace shampoo {

// Sets the keys in a string such as "lr = 0.1 grafting=adam". The string consists of pairs key=value, which are
// separated by blanks or line ends. A pair may also have blanks around its "=". "#" begins a comment, which ends at the
// end of the line. If a key occurs twice, its last value counts; but two different values of the key `preset` are an
// error. On failure, the config is unchanged.
Status SetFromOptionText(const char* text, Config* config);

}  // namespace shampoo
