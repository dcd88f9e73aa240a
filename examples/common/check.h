// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// What to do when something goes wrong: say it and stop.
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <stddef.h>
#include <stdio.h>

// What a message begins with: each program defines its own.
extern const char program_name[];

// Prints the program's name and the message, as printf would, on the standard error stream, and ends with status 1.
void fail(const char* format, ...);

// calloc(count, size), but never NULL: ends the program instead.
void* allocate(size_t count, size_t size);

// fopen and fclose; a file that cannot be opened, or not be written to the end, ends the program.
FILE* open_file(const char* path, const char* mode);
void close_file(FILE* file, const char* path);

#endif
