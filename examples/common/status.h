// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks the status that a call to libshampoo returns.
#ifndef EXAMPLES_STATUS_H
#define EXAMPLES_STATUS_H

#include <shampoo/shampoo.h>

// Exits with the library's error message if the status is not SHAMPOO_OK. The message also contains `what`, the
// name of the operation.
void check(shampoo_status status, const char* what);

#endif
