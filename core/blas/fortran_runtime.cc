// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Defines the only function of the Fortran runtime that the LAPACK routines in this library call. The library therefore
// depends on neither libgfortran nor libquadmath.
#ifndef SHAMPOO_SYSTEM_BLAS

#include <algorithm>
#include <cstddef>

// Concatenates `left` and `right`, and truncates the result, or pads it with blanks, to target_length. LAPACK's sormtr
// and dormtr call this function to build strings such as "LN".
extern "C" void _gfortran_concat_string(size_t target_length, char* target,  // NOLINT(bugprone-reserved-identifier)
                                        size_t left_length, const char* left, size_t right_length, const char* right) {
  const size_t from_left = std::min(left_length, target_length);
  std::copy_n(left, from_left, target);
  const size_t from_right = std::min(right_length, target_length - from_left);
  std::copy_n(right, from_right, target + from_left);
  std::fill(target + from_left + from_right, target + target_length, ' ');
}

#endif
