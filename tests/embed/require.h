// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_TESTS_EMBED_REQUIRE_H
#define SHAMPOO_TESTS_EMBED_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

// Exit status of a test that cannot run on this machine. ctest counts such a test as skipped.
#define SKIPPED 77

// Ends the program with status 1 unless the condition holds. The other arguments are a format and values for the
// error, as for printf.
#define REQUIRE(condition, ...)                                                         \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      fprintf(stderr, "%s:%d: not true: %s\n  seen: ", __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                                     \
      fputc('\n', stderr);                                                              \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

// Makes a call of the library. Ends the program unless the call returns SHAMPOO_OK. `api` points to the table of
// functions (see api.h) through which the call is made.
#define REQUIRE_OK(api, call)                                                                                      \
  do {                                                                                                             \
    const shampoo_status require_status = (call);                                                                  \
    REQUIRE(require_status == SHAMPOO_OK, "%s gives %d, \"%s\"", #call, (int)require_status, (api)->last_error()); \
  } while (0)

#endif
