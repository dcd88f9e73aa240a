// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Error handling: print a message and exit.
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <stddef.h>
#include <stdio.h>

// Name that messages begin with. Each program defines it.
extern const char program_name[];

// Prints the program's name and the message, formatted as by printf, to stderr and exits with status 1.
void fail(const char* format, ...);

// Calls calloc. Exits with an error instead of returning NULL.
void* allocate(size_t count, size_t size);

// Call fopen and fclose. Exit with an error if the file cannot be opened, or if an earlier read or write failed.
FILE* open_file(const char* path, const char* mode);
void close_file(FILE* file, const char* path);

#endif
