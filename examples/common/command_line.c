// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { kFlag, kInteger, kNumber, kText, kChoice, kCall };

Option option_flag(const char* name, int* address, int content, const char* help) {
  return (Option){.type = kFlag, .name = name, .address = address, .largest = content, .help = help};
}

Option option_integer(const char* name, int* address, int smallest, int largest, const char* help) {
  return (Option){.type = kInteger,
                  .name = name,
                  .value = "N",
                  .address = address,
                  .smallest = smallest,
                  .largest = largest,
                  .help = help};
}

Option option_number(const char* name, double* address, const char* help) {
  return (Option){.type = kNumber, .name = name, .value = "X", .address = address, .help = help};
}

Option option_text(const char* name, const char* value, const char** address, const char* help) {
  return (Option){.type = kText, .name = name, .value = value, .address = address, .help = help};
}

Option option_choice(const char* name, int* address, const char* const* choices, const char* help) {
  return (Option){.type = kChoice, .name = name, .value = "NAME", .address = address, .choices = choices, .help = help};
}

Option option_call(const char* name, const char* value, void (*take)(void*, const char*), void* address,
                   const char* help) {
  return (Option){.type = kCall, .name = name, .value = value, .take = take, .address = address, .help = help};
}

static void print_option(const Option* option) {
  char left[64];
  snprintf(left, sizeof left, "%s %s", option->name, option->value != NULL ? option->value : "");
  printf("  %-21s %s", left, option->help);
  if (option->type == kChoice) {
    for (int i = 0; option->choices[i] != NULL; ++i) printf("%s%s", i == 0 ? " [" : ", ", option->choices[i]);
    printf("] (%s)", option->choices[*(const int*)option->address]);
  }
  if (option->type == kInteger) printf(" (%d)", *(const int*)option->address);
  if (option->type == kNumber && *(const double*)option->address >= 0) printf(" (%g)", *(const double*)option->address);
  if (option->type == kText && *(const char* const*)option->address != NULL) {
    printf(" (%s)", *(const char* const*)option->address);
  }
  printf("\n");
}

static void print_help(const char* about, const Option* table, const Option* more) {
  printf("usage: %s [option [value]]...\n\n%s\n", program_name, about);
  for (; table->name != NULL; ++table) print_option(table);
  for (; more != NULL && more->name != NULL; ++more) print_option(more);
  printf("  %-21s %s\n", "--help", "this text");
}

static void store_choice(const Option* option, const char* text) {
  char expected[256] = "";
  for (int i = 0; option->choices[i] != NULL; ++i) {
    if (strcmp(text, option->choices[i]) == 0) {
      *(int*)option->address = i;
      return;
    }
    const size_t used = strlen(expected);
    snprintf(expected + used, sizeof expected - used, "%s%s", i == 0 ? "" : ", ", option->choices[i]);
  }
  fail("%s: \"%s\"; expected one of: %s", option->name, text, expected);
}

static void store(const Option* option, const char* text) {
  char* end = NULL;
  if (option->type == kInteger) {
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < option->smallest || value > option->largest) {
      fail("%s: \"%s\"; expected an integer from %d to %d", option->name, text, option->smallest, option->largest);
    }
    *(int*)option->address = (int)value;
  } else if (option->type == kNumber) {
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value < 0) {
      fail("%s: \"%s\"; expected a finite number of at least 0", option->name, text);
    }
    *(double*)option->address = value;
  } else if (option->type == kText) {
    *(const char**)option->address = text;
  } else if (option->type == kChoice) {
    store_choice(option, text);
  } else {
    option->take(option->address, text);
  }
}

static const Option* find(const Option* table, const char* name) {
  for (; table != NULL && table->name != NULL; ++table) {
    if (strcmp(name, table->name) == 0) return table;
  }
  return NULL;
}

void command_line_parse(int argc, char** argv, const char* about, const Option* table, const Option* more) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--help") == 0) {
      print_help(about, table, more);
      exit(0);
    }
  }
  for (int i = 1; i < argc; ++i) {
    const Option* option = find(table, argv[i]);
    if (option == NULL) option = find(more, argv[i]);
    if (option == NULL) fail("unknown option: %s; --help lists the options", argv[i]);
    if (option->type == kFlag) {
      *(int*)option->address = option->largest;
      continue;
    }
    if (++i == argc) fail("%s has no value; expected %s %s (see --help)", option->name, option->name, option->value);
    store(option, argv[i]);
  }
}
