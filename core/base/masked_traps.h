// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>

namespace shampoo {

// Masks the floating-point traps of the thread that creates the object, because infinity and NaN are ordinary
// intermediate values in the library. The destructor restores the traps and the exception flags. Rounding and
// flush-to-zero are not changed.
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
