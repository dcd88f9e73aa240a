// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/checkpoint/json.h"

namespace shampoo {

// Checks of strings that come from a file or another rank and are used in errors and file names.

// Returns whether any string or member name in a JSON value contains a zero byte, which would end the string in C.
bool HasZeroByte(const Json& value);
inline bool HasZeroByte(std::string_view text) { return text.find('\0') != std::string_view::npos; }

// Returns a string with control characters replaced by escapes such as "\x00", so that an error can show the string.
std::string Shown(std::string_view text);

// Fails unless `name` is a plain file name. The files of a checkpoint are in the directory of its index, and a path
// could lead out of that directory.
Status CheckStoredName(const std::string& name);

}  // namespace shampoo
