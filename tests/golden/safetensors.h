// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace shampoo::golden {

// A tensor of a safetensors file. Elements are row-major and little-endian.
struct Tensor {
  std::string dtype;  // as in the file: "F64", "F32", "F16", "BF16", "I64", "I32", "U8"
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  // Returns the elements. Throws if the tensor has another dtype.
  template <typename T>
  const T* As(const std::string& expected_dtype) const {
    if (dtype != expected_dtype) throw std::runtime_error("a tensor is " + dtype + ", expected " + expected_dtype);
    return reinterpret_cast<const T*>(bytes.data());
  }
};

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;

  const Tensor& At(const std::string& name) const;    // throws if there is no such tensor
  const Tensor* Find(const std::string& name) const;  // returns nullptr if there is no such tensor
};

int64_t ElementCount(const std::vector<int64_t>& shape);
size_t ElementSize(const std::string& dtype);             // in bytes; throws for an unknown dtype
int32_t DtypeCode(const std::string& dtype);              // returns a code such as SHAMPOO_F32; throws if unknown
std::string DtypeName(int32_t code);                      // the inverse of DtypeCode
std::string DtypeOfParameters(const std::string& lower);  // converts, for example, "bf16" to "BF16"

// Read and write a safetensors file. On failure, both functions throw std::runtime_error with the path and the reason.
// A size in the header that does not fit the file is a failure of ReadSafetensors().
TensorFile ReadSafetensors(const std::filesystem::path& path);
void WriteSafetensors(const std::filesystem::path& path, const TensorFile& file);

}  // namespace shampoo::golden
