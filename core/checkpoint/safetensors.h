// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/status.h"

namespace shampoo {

// The safetensors format: 8 bytes that tell the length of the header, the header in JSON, which tells name, dtype,
// shape and place of each tensor, then the tensors without gaps.

// One tensor. begin, end: bytes after the header.
struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;
  int64_t end = 0;
};

inline constexpr int64_t kSafetensorsLengthBytes = 8;

// "F32", as the format calls dtypes.
const char* SafetensorsName(Dtype dtype);
bool DtypeFromSafetensors(std::string_view name, Dtype* dtype);

// What stands before the tensors: the length, and the header. note: told under __metadata__.
std::string SafetensorsStart(std::span<const TensorSpec> tensors, const std::string& note);

// The length of the header, from the first 8 bytes of a file of file_bytes.
Status ReadSafetensorsLength(const char* start, int64_t file_bytes, int64_t* header_bytes);
// header: the JSON alone. data_bytes: of what comes after it. Fails on what is malformed, or lies outside of the file.
Status ParseSafetensorsHeader(std::string_view header, int64_t data_bytes, std::vector<TensorSpec>* tensors);

}  // namespace shampoo
