// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/checkpoint/json.h"

namespace shampoo {

// Checks of texts that come from a file or from another rank, and that errors and file names are made of.

// Whether a text within the value, or the name of a member, contains a zero byte: in C it would end there.
bool HasZeroByte(const Json& value);
inline bool HasZeroByte(std::string_view text) { return text.find('\0') != std::string_view::npos; }

// A text as an error can show it: control characters as "\x00", because they would end it or control a terminal.
std::string Shown(std::string_view text);

// Fails unless it is a name that a file of a checkpoint can have. Files lie beside the index: a path in the place of a
// name would lead out of its directory.
Status CheckStoredName(const std::string& name);

}  // namespace shampoo
