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

// A tensor of a file with row-major, little-endian elements.
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

  const Tensor& At(const std::string& name) const;    // throws an error that names the tensor
  const Tensor* Find(const std::string& name) const;  // nullptr: no such tensor
};

int64_t ElementCount(const std::vector<int64_t>& shape);
size_t ElementSize(const std::string& dtype);             // bytes; throws for an unknown dtype
int32_t DtypeCode(const std::string& dtype);              // SHAMPOO_F32, ...; throws for an unknown dtype
std::string DtypeName(int32_t code);                      // the inverse of DtypeCode
std::string DtypeOfParameters(const std::string& lower);  // converts "bf16", as in case settings, to "BF16"

// These functions throw std::runtime_error with the path and the reason. The reader checks every size against the file.
TensorFile ReadSafetensors(const std::filesystem::path& path);
void WriteSafetensors(const std::filesystem::path& path, const TensorFile& file);

}  // namespace shampoo::golden
