// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <string>

namespace bench {

// Prints the text and ends the program.
[[noreturn]] void Fail(const std::string& text);

// Prints the library's last error and ends the program unless status is SHAMPOO_OK.
void Try(shampoo_status status);

}  // namespace bench
