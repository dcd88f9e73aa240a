// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <math.h>
#include <stdio.h>

void json_number(double value) {
  if (isfinite(value)) {
    printf("%.17g", value);
  } else {
    printf("null");
  }
}

void json_element(int index, double value) {
  if (index > 0) printf(", ");
  json_number(value);
}
