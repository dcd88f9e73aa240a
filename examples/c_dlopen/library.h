// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Loads libshampoo. The program is not linked with the library, and calls it only through a table of functions.
#ifndef C_DLOPEN_LIBRARY_H
#define C_DLOPEN_LIBRARY_H

#include <shampoo/api.h>

// The name that the system searches for. It contains only the major version, so library_open() checks the version.
extern const char library_soname[];

// Loads a library and returns its functions. Ends the program with a message if the file is missing, is not libshampoo,
// or has a version that this program was not compiled for. The library stays loaded.
const shampoo_api* library_open(const char* path);

// Ends the program with a message if the status is an error. The message begins with `what`, the name of the operation.
void library_check(const shampoo_api* api, shampoo_status status, const char* what);

#endif
