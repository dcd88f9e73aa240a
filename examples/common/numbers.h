// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of the command line; text that is none ends the program with a message that has the name of the option.
#ifndef EXAMPLES_NUMBERS_H
#define EXAMPLES_NUMBERS_H

double to_number(const char* name, const char* text);  // finite, not below 0
int to_integer(const char* name, const char* text, int smallest, int largest);

#endif
