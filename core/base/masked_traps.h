// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>

namespace shampoo {

// Masks the floating-point traps of this thread for a while. Overflow, NaN and division by zero are ordinary
// intermediate values here: they are looked for in results. Rounding and flush-to-zero stay as they are; traps and
// exception flags are restored at the end.
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
