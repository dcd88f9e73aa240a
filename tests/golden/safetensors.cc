// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// A safetensors file has three parts: the length of the header (8 bytes, little-endian), the header, and the elements
// of all tensors. The header is a JSON object:
// {"<name>": {"dtype", "shape", "data_offsets": [first, end)}, ..., "__metadata__": {<string>: <string>}}
#include "tests/golden/safetensors.h"

#include <shampoo/shampoo.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace shampoo::golden {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are used in the byte order of the file");

struct DtypeRow {
  const char* name;
  size_t size;
  int32_t code;
};
constexpr std::array<DtypeRow, 7> kDtypes = {{{"F64", 8, SHAMPOO_F64},
                                              {"F32", 4, SHAMPOO_F32},
                                              {"F16", 2, SHAMPOO_F16},
                                              {"BF16", 2, SHAMPOO_BF16},
                                              {"I64", 8, SHAMPOO_I64},
                                              {"I32", 4, SHAMPOO_I32},
                                              {"U8", 1, 7}}};

const DtypeRow& FindDtype(const std::string& dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (dtype == row.name) return row;
  }
  throw std::runtime_error("unknown dtype " + dtype);
}

std::vector<std::byte> ReadBytes(std::ifstream& in, uint64_t count) {
  std::vector<std::byte> bytes(count);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(count));
  if (!in) throw std::runtime_error("the file ends early");
  return bytes;
}

Tensor ParseTensor(const std::string& name, const nlohmann::json& entry, const std::vector<std::byte>& body) {
  Tensor tensor;
  tensor.dtype = entry.at("dtype").get<std::string>();
  tensor.shape = entry.at("shape").get<std::vector<int64_t>>();
  for (const int64_t dim : tensor.shape) {
    if (dim < 0) throw std::runtime_error("tensor " + name + " has a negative dim");
  }
  const auto offsets = entry.at("data_offsets").get<std::array<uint64_t, 2>>();
  const uint64_t expected = static_cast<uint64_t>(ElementCount(tensor.shape)) * ElementSize(tensor.dtype);
  if (offsets[0] > offsets[1] || offsets[1] > body.size() || offsets[1] - offsets[0] != expected) {
    throw std::runtime_error("tensor " + name + " has data_offsets that do not fit its shape or the file");
  }
  // The library needs a valid address even for a parameter without elements.
  tensor.bytes.reserve(std::max<uint64_t>(expected, sizeof(double)));
  tensor.bytes.assign(body.begin() + static_cast<std::ptrdiff_t>(offsets[0]),
                      body.begin() + static_cast<std::ptrdiff_t>(offsets[1]));
  return tensor;
}

TensorFile Parse(std::ifstream& in, uint64_t file_size) {
  uint64_t header_size = 0;
  const std::vector<std::byte> first = ReadBytes(in, sizeof(header_size));
  std::memcpy(&header_size, first.data(), sizeof(header_size));
  if (header_size > file_size - sizeof(header_size)) throw std::runtime_error("the header is longer than the file");
  const std::vector<std::byte> text = ReadBytes(in, header_size);
  const auto* begin = reinterpret_cast<const char*>(text.data());
  const nlohmann::json header = nlohmann::json::parse(begin, begin + text.size());
  const std::vector<std::byte> body = ReadBytes(in, file_size - sizeof(header_size) - header_size);
  TensorFile file;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      file.metadata = entry.get<std::map<std::string, std::string>>();
    } else {
      file.tensors.emplace(name, ParseTensor(name, entry, body));
    }
  }
  return file;
}

}  // namespace

const Tensor& TensorFile::At(const std::string& name) const {
  const Tensor* tensor = Find(name);
  if (tensor == nullptr) throw std::runtime_error("there is no tensor " + name);
  return *tensor;
}

const Tensor* TensorFile::Find(const std::string& name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

int64_t ElementCount(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(count, dim, &count)) throw std::runtime_error("a shape has too many elements");
  }
  return count;
}

size_t ElementSize(const std::string& dtype) { return FindDtype(dtype).size; }

int32_t DtypeCode(const std::string& dtype) { return FindDtype(dtype).code; }

std::string DtypeName(int32_t code) {
  for (const DtypeRow& row : kDtypes) {
    if (code == row.code) return row.name;
  }
  throw std::runtime_error("unknown dtype " + std::to_string(code));
}

std::string DtypeOfParameters(const std::string& lower) {
  std::string upper = lower;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return FindDtype(upper).name;
}

TensorFile ReadSafetensors(const std::filesystem::path& path) {
  try {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error("cannot be opened");
    return Parse(in, std::filesystem::file_size(path));
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

void WriteSafetensors(const std::filesystem::path& path, const TensorFile& file) {
  nlohmann::json header = nlohmann::json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  uint64_t position = 0;
  for (const auto& [name, tensor] : file.tensors) {
    const uint64_t end = position + tensor.bytes.size();
    header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {position, end}}};
    position = end;
  }
  std::string text = header.dump();
  // The format allows spaces at the end of the header, so that the elements are aligned.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_size = text.size();
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&header_size), sizeof(header_size));
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const auto& [name, tensor] : file.tensors) {
    out.write(reinterpret_cast<const char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
  }
  out.close();
  if (!out) throw std::runtime_error(path.string() + ": cannot be written");
}

}  // namespace shampoo::golden
