// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Loads libshampoo at run time. The program is not linked with the library. It calls the library only through a table
// of functions.
#ifndef C_DLOPEN_LIBRARY_H
#define C_DLOPEN_LIBRARY_H

#include <shampoo/api.h>

// The file name that the dynamic loader searches for, such as libshampoo.so.0. The name contains only the major
// version, so library_open() also checks the minor version.
extern const char library_soname[];

// Loads a library and returns the table of its functions. Ends the program with a message if the file is missing, is
// not libshampoo, or has a version that does not guarantee the API of the header. The library stays loaded.
const shampoo_api* library_open(const char* path);

// Ends the program with a message if the status is an error. The message begins with `what`, the name of the operation.
void library_check(const shampoo_api* api, shampoo_status status, const char* what);

#endif
