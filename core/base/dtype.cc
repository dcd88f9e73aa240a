// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/dtype.h"

#include <cfloat>

namespace shampoo {

size_t SizeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
    case Dtype::kBf16:
      return 2;
    case Dtype::kF32:
    case Dtype::kI32:
      return 4;
    case Dtype::kF64:
    case Dtype::kI64:
      return 8;
  }
  return 0;
}

const char* NameOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "f32";
    case Dtype::kF64:
      return "f64";
    case Dtype::kF16:
      return "f16";
    case Dtype::kBf16:
      return "bf16";
    case Dtype::kI32:
      return "i32";
    case Dtype::kI64:
      return "i64";
  }
  return "?";
}

bool FloatDtypeFromName(std::string_view name, Dtype* dtype) {
  for (Dtype candidate : {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBf16}) {
    if (name == NameOf(candidate)) {
      *dtype = candidate;
      return true;
    }
  }
  return false;
}

bool FloatDtypeFromInt(int32_t value, Dtype* dtype) {
  if (value < static_cast<int32_t>(Dtype::kF32) || value > static_cast<int32_t>(Dtype::kBf16)) return false;
  *dtype = static_cast<Dtype>(value);
  return true;
}

double LargestFinite(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 65504.0;
    case Dtype::kBf16:
      return 3.3895313892515355e38;
    case Dtype::kF32:
      return FLT_MAX;
    default:
      return DBL_MAX;
  }
}

double MachineEpsilon(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 1.0 / 1024;
    case Dtype::kBf16:
      return 1.0 / 128;
    case Dtype::kF32:
      return FLT_EPSILON;
    default:
      return DBL_EPSILON;
  }
}

}  // namespace shampoo
