// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "core/base/status.h"

// A caller that was compiled with the header of another version may pass structs that are larger or smaller than the
// structs of this version. Callers therefore also pass the sizes of structs.
namespace shampoo {

// Copies a caller's struct of `size` bytes to *own. Fields that the caller's struct lacks become 0. Fails if the
// caller's struct is larger than *own and a byte after the fields that this version knows is not 0. name: the name of
// the argument, for error messages.
template <typename Struct>
Status CopyStruct(const void* user_struct, size_t size, const std::string& name, Struct* own) {
  const auto* const bytes = static_cast<const unsigned char*>(user_struct);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      return Unsupported(name, " has a field that this version of the library does not know (byte ", i, " of ", size,
                         " is not 0): load a newer library, or leave the field 0");
    }
  }
  std::memset(static_cast<void*>(own), 0, sizeof(Struct));
  std::memcpy(static_cast<void*>(own), user_struct, std::min(size, sizeof(Struct)));
  return {};
}

// Copies a caller's struct that begins with struct_size to *own. Fails if struct_size is below first_version_size, the
// size of the struct in version 0.1.
template <typename Struct>
Status ReadStruct(const Struct* user_struct, size_t first_version_size, const char* name, Struct* own) {
  if (user_struct == nullptr) return Invalid(name, " is NULL: expected a pointer to a struct");
  const size_t size = user_struct->struct_size;
  if (size < first_version_size) {
    return Invalid(name, ".struct_size is ", size, ": expected at least ", first_version_size,
                   "; start from the _INIT macro of the struct");
  }
  return CopyStruct(user_struct, size, name, own);
}

// Fails if WriteStruct() cannot write to a caller's struct.
template <typename Struct>
Status CheckWritable(const Struct* user_struct, size_t first_version_size, const char* name) {
  if (user_struct == nullptr) return Invalid(name, " is NULL: expected a pointer to a struct");
  if (user_struct->struct_size >= first_version_size) return {};
  return Invalid(name, ".struct_size is ", user_struct->struct_size, ": expected at least ", first_version_size,
                 "; start from the _INIT macro of the struct");
}

// Copies `own` to a caller's struct. Writes only fields that the caller's version of the struct has, and does not
// change struct_size.
template <typename Struct>
Status WriteStruct(const Struct& own, size_t first_version_size, const char* name, Struct* user_struct) {
  SHAMPOO_RETURN_IF_ERROR(CheckWritable(user_struct, first_version_size, name));
  const size_t size = user_struct->struct_size;
  std::memcpy(static_cast<void*>(user_struct), &own, std::min(size, sizeof(Struct)));
  user_struct->struct_size = size;
  return {};
}

}  // namespace shampoo
