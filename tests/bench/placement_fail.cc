// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// fail.h for shampoo_placement.
#include <cstdio>
#include <cstdlib>

#include "tests/bench/fail.h"

namespace bench {

void Fail(const std::string& text) {
  std::fprintf(stderr, "shampoo_placement: %s\n", text.c_str());
  std::exit(1);
}

void Try(shampoo_status status) {
  if (status != SHAMPOO_OK) Fail(std::string(shampoo_status_name(status)) + ": " + shampoo_last_error());
}

}  // namespace bench
