// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/dtype.h"

namespace shampoo {

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

}  // namespace shampoo
