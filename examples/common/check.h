// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Error handling: print a message and exit.
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <stddef.h>
#include <stdio.h>

// Name of the program. Error messages begin with this name. Each program defines the variable.
extern const char program_name[];

// Formats a message as printf does, prints the program's name and the message to stderr, and exits with status 1.
void fail(const char* format, ...);

// Calls calloc. Exits with an error instead of returning NULL.
void* allocate(size_t count, size_t size);

// Calls fopen. Exits with an error if the file cannot be opened.
FILE* open_file(const char* path, const char* mode);
// Calls fclose. Exits with an error if fclose, or an earlier read or write of the file, failed.
void close_file(FILE* file, const char* path);

#endif
