// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Parses the command line of a program according to a table of its options, and prints the table for --help.
#ifndef EXAMPLES_COMMAND_LINE_H
#define EXAMPLES_COMMAND_LINE_H

// An option: one row of the table. Each option_ function below returns a row. The last row of a table is all zeros.
typedef struct {
  const char* name;   // such as "--epochs"
  const char* value;  // what --help shows after the name, such as "N"; NULL: the option takes no value
  const char* help;   // one line
  void* address;      // receives the value; contains the default before the parse
  int type;
  int smallest, largest;       // limits of an integer; a flag stores `largest`
  const char* const* choices;  // names, with NULL at the end
  void (*take)(void* address, const char* value);
} Option;

// An option without a value. Stores `content` if the option is on the command line.
Option option_flag(const char* name, int* address, int content, const char* help);
// An option whose value is an integer in [smallest, largest].
Option option_integer(const char* name, int* address, int smallest, int largest, const char* help);
// An option whose value is a finite number of at least 0. The default may be negative, to mark the option as not
// set; --help does not show such a default.
Option option_number(const char* name, double* address, const char* help);
// An option whose value is any string.
Option option_text(const char* name, const char* value, const char** address, const char* help);
// An option whose value is one of the strings in `choices`. Stores the index of this string.
Option option_choice(const char* name, int* address, const char* const* choices, const char* help);
// An option that may be repeated. Calls take(address, value) each time.
Option option_call(const char* name, const char* value, void (*take)(void*, const char*), void* address,
                   const char* help);

// Parses all arguments. If one of them is --help, prints the help and exits with status 0. If an argument is wrong,
// exits with an error. `about` describes the program in the help. `more` is a second table, or NULL.
void command_line_parse(int argc, char** argv, const char* about, const Option* table, const Option* more);

#endif
