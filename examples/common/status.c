// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "status.h"

#include "check.h"

void check(shampoo_status status, const char* what) {
  if (status != SHAMPOO_OK) fail("%s: %s (%s)", what, shampoo_last_error(), shampoo_status_name(status));
}
