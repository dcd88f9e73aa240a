// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/fail.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace bench {

void Fail(const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, text.c_str());
  std::exit(1);
}

void Try(shampoo_status status) {
  if (status != SHAMPOO_OK) Fail(std::string(shampoo_status_name(status)) + ": " + shampoo_last_error());
}

}  // namespace bench
