// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <string>

namespace bench {

// Prints the message and ends the program.
[[noreturn]] void Fail(const std::string& text);

// Ends the program with the library's last error unless status is SHAMPOO_OK.
void Try(shampoo_status status);

}  // namespace bench
