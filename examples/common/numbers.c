// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

double to_number(const char* name, const char* text) {
  char* end;
  const double value = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(value)) fail("%s: \"%s\" is not a number", name, text);
  if (value < 0) fail("%s: %s is below 0", name, text);
  return value;
}

int to_integer(const char* name, const char* text, int smallest, int largest) {
  char* end;
  const long value = strtol(text, &end, 10);
  if (end == text || *end != '\0') fail("%s: \"%s\" is not an integer", name, text);
  if (value < smallest || value > largest) fail("%s: %s is not in [%d, %d]", name, text, smallest, largest);
  return (int)value;
}
