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

// The safetensors format:
//   8 bytes: the length of the header in bytes, little-endian
//   the header: JSON with the name, dtype, shape and position of each tensor
//   the elements of the tensors, without gaps

// One tensor. Its bytes are [begin, end), counted from the end of the header.
struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;
  int64_t end = 0;
};

inline constexpr int64_t kSafetensorsLengthBytes = 8;

// Convert between dtypes and their names in the format, such as "F32". DtypeFromSafetensors() returns false if `name`
// is not the name of a Dtype.
const char* SafetensorsName(Dtype dtype);
bool DtypeFromSafetensors(std::string_view name, Dtype* dtype);

// Returns the start of a file: the length of the header, and the header. note: the value of `format` in the header's
// member __metadata__, which is not a tensor.
std::string SafetensorsStart(std::span<const TensorSpec> tensors, const std::string& note);

// Reads the length of the header. start: the first 8 bytes of a file. file_bytes: the size of the file.
Status ReadSafetensorsLength(const char* start, int64_t file_bytes, int64_t* header_bytes);
// Parses and checks a header. header: only the JSON. data_bytes: the number of bytes of the file after the header.
Status ParseSafetensorsHeader(std::string_view header, int64_t data_bytes, std::vector<TensorSpec>* tensors);

}  // namespace shampoo
