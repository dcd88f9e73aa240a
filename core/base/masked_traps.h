// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>

namespace shampoo {

// Masks the floating-point traps of this thread, and restores traps and exception flags in the destructor. Infinity and
// NaN are ordinary intermediate values in the library, which checks its results for them. Rounding and flush-to-zero
// are unchanged.
class MaskedTraps {
 public:
  MaskedTraps() { std::feholdexcept(&before_); }
  ~MaskedTraps() { std::fesetenv(&before_); }
  MaskedTraps(const MaskedTraps&) = delete;
  MaskedTraps& operator=(const MaskedTraps&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace shampoo
