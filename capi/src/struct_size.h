// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/base/status.h"

namespace shampoo {

// Structs of the API begin with the size that their writer knows (struct_size), so that either side may be newer.

// A caller's struct in the form that this version knows: fields that it lacks are 0; it may not be smaller than the
// first version's, and what goes beyond ours must be 0, as we could not honour it.
template <typename Struct>
Status ReadStruct(const Struct* given, size_t first_version_size, const char* name, Struct* own) {
  if (given == nullptr) return Invalid(name, " is NULL: expected a pointer to a struct");
  const size_t size = given->struct_size;
  if (size < first_version_size) {
    return Invalid(name, ".struct_size is ", size, ": expected at least ", first_version_size,
                   "; start from the _INIT macro of the struct");
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      return Unsupported(name, " has a field that this version of the library does not know (byte ", i, " of ", size,
                         " is not 0): load a newer library, or leave the field 0");
    }
  }
  std::memset(static_cast<void*>(own), 0, sizeof(Struct));
  std::memcpy(static_cast<void*>(own), given, std::min(size, sizeof(Struct)));
  return {};
}

// Whether a caller's struct can be written to.
template <typename Struct>
Status CheckWritable(const Struct* given, size_t first_version_size, const char* name) {
  if (given == nullptr) return Invalid(name, " is NULL: expected a pointer to a struct");
  if (given->struct_size >= first_version_size) return {};
  return Invalid(name, ".struct_size is ", given->struct_size, ": expected at least ", first_version_size,
                 "; start from the _INIT macro of the struct");
}

// Our struct into a caller's: as much as it has room for. struct_size stays the caller's.
template <typename Struct>
Status WriteStruct(const Struct& own, size_t first_version_size, const char* name, Struct* given) {
  SHAMPOO_RETURN_IF_ERROR(CheckWritable(given, first_version_size, name));
  const size_t size = given->struct_size;
  std::memcpy(static_cast<void*>(given), &own, std::min(size, sizeof(Struct)));
  given->struct_size = size;
  return {};
}

}  // namespace shampoo
