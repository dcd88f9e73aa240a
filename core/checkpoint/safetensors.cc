// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/safetensors.h"

#include <bit>

#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/stored_text.h"

namespace shampoo {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors files store numbers in little-endian byte order");

constexpr const char* kMetadata = "__metadata__";

struct DtypeName {
  Dtype dtype;
  const char* name;
};
constexpr DtypeName kDtypeNames[] = {{Dtype::kF32, "F32"},   {Dtype::kF64, "F64"}, {Dtype::kF16, "F16"},
                                     {Dtype::kBf16, "BF16"}, {Dtype::kI32, "I32"}, {Dtype::kI64, "I64"}};

Status ParseTensor(const std::string& name, const Json& json, int64_t data_bytes, TensorSpec* tensor) {
  const auto malformed = [&name](const char* what) { return IoFailed("tensor \"", name, "\": ", what, kLoadAnother); };
  std::string dtype;
  std::vector<int64_t> offsets;
  tensor->name = name;
  if (!Get(json, "dtype", &dtype) || !DtypeFromSafetensors(dtype, &tensor->dtype))
    return malformed("its dtype is missing or unknown");
  if (!Get(json, "shape", &tensor->shape)) return malformed("it has no shape");
  if (!Get(json, "data_offsets", &offsets) || offsets.size() != 2)
    return malformed("it does not have two data_offsets");
  int64_t bytes = static_cast<int64_t>(SizeOf(tensor->dtype));
  for (const int64_t dim : tensor->shape) {
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes)) return malformed("its shape is invalid");
  }
  tensor->begin = offsets[0];
  tensor->end = offsets[1];
  if (tensor->begin < 0 || tensor->end < tensor->begin || tensor->end > data_bytes) {
    return malformed("its data_offsets are outside of the file");
  }
  if (tensor->end - tensor->begin != bytes) return malformed("its data_offsets do not match its shape");
  return {};
}

}  // namespace

const char* SafetensorsName(Dtype dtype) {
  for (const DtypeName& known : kDtypeNames) {
    if (known.dtype == dtype) return known.name;
  }
  return "";
}

bool DtypeFromSafetensors(std::string_view name, Dtype* dtype) {
  for (const DtypeName& known : kDtypeNames) {
    if (known.name != name) continue;
    *dtype = known.dtype;
    return true;
  }
  return false;
}

std::string SafetensorsStart(std::span<const TensorSpec> tensors, const std::string& note) {
  // The header is written piece by piece, because a JSON tree would need many times as much memory as the header.
  std::string header = Cat("{\"", kMetadata, "\":{\"format\":", Quoted(note), "}");
  for (const TensorSpec& tensor : tensors) {
    header += Cat(",", Quoted(tensor.name), ":{\"dtype\":\"", SafetensorsName(tensor.dtype),
                  "\",\"shape\":", Listed(tensor.shape), ",\"data_offsets\":[", tensor.begin, ",", tensor.end, "]}");
  }
  header += "}";
  // Spaces at the end of the header, which the format allows, align the tensors to 8 bytes.
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string start;
  for (int byte = 0; byte < 8; ++byte) start.push_back(static_cast<char>(header.size() >> (8 * byte) & 0xff));
  return start + header;
}

Status ReadSafetensorsLength(const char* start, int64_t file_bytes, int64_t* header_bytes) {
  uint64_t length = 0;
  for (int byte = 0; byte < 8; ++byte) length |= uint64_t{static_cast<unsigned char>(start[byte])} << (8 * byte);
  if (length > static_cast<uint64_t>(file_bytes - kSafetensorsLengthBytes)) {
    return IoFailed("the header length is ", length, " bytes, but the file has ", file_bytes,
                    " bytes, 8 of them before the header", kLoadAnother);
  }
  // Other readers of the format have the same limit. The limit prevents a huge allocation if the length is damaged.
  constexpr uint64_t kMax = 100'000'000;
  if (length > kMax) return IoFailed("the header length is ", length, " bytes; expected at most ", kMax, kLoadAnother);
  *header_bytes = static_cast<int64_t>(length);
  return {};
}

Status ParseSafetensorsHeader(std::string_view header, int64_t data_bytes, std::vector<TensorSpec>* tensors) {
  tensors->clear();
  Status status;
  const auto zero_byte = [] {
    return IoFailed("the name of a tensor contains a zero byte (\\u0000); expected none", kLoadAnother);
  };
  // The parser passes each tensor to this function as soon as it has parsed the tensor. A JSON tree of all tensors
  // would need many times as much memory as the header.
  const auto consume = [&](std::span<const std::string> where, const Json& tensor) {
    if (where.size() != 1 || where[0] == kMetadata) return false;
    if (!status.ok()) return true;
    status = HasZeroByte(where[0]) ? zero_byte() : ParseTensor(where[0], tensor, data_bytes, &tensors->emplace_back());
    return true;
  };
  Json rest;
  if (!ParseJson(header, consume, &rest) || !rest.is_object()) {
    return IoFailed("the header is not a JSON object", kLoadAnother);
  }
  for (const std::string& name : rest.names) {
    if (HasZeroByte(name)) return zero_byte();
    if (name != kMetadata)
      return IoFailed("the header entry of tensor \"", name, "\" is not a JSON object", kLoadAnother);
  }
  return status;
}

}  // namespace shampoo
