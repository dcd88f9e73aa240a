// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <string>

namespace bench {

// Prints the message to stderr and ends the program with status 1.
[[noreturn]] void Fail(const std::string& text);

// If status is not SHAMPOO_OK, prints the library's last error and ends the program.
void Try(shampoo_status status);

}  // namespace bench
