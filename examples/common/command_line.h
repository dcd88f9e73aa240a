// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Parses the command line of a program from a table of its options, and prints the table for --help.
#ifndef EXAMPLES_COMMAND_LINE_H
#define EXAMPLES_COMMAND_LINE_H

// One row of the table. The functions below make a row; a row of zeros ends the table.
typedef struct {
  const char* name;   // such as "--epochs"
  const char* value;  // what --help shows after the name, such as "N"; NULL: the option takes no value
  const char* help;   // one line
  void* address;      // where the value is stored; its content before the parse is the default
  int type;
  int smallest, largest;       // limits of an integer; a flag stores `largest`
  const char* const* choices;  // names, with NULL at the end
  void (*take)(void* address, const char* value);
} Option;

// Stores `content` if the option is given.
Option option_flag(const char* name, int* address, int content, const char* help);
// Accepts integers in [smallest, largest].
Option option_integer(const char* name, int* address, int smallest, int largest, const char* help);
// Accepts finite numbers that are not negative. A negative default is not shown by --help.
Option option_number(const char* name, double* address, const char* help);
// Accepts any text.
Option option_text(const char* name, const char* value, const char** address, const char* help);
// Accepts one of the names, and stores its index.
Option option_choice(const char* name, int* address, const char* const* choices, const char* help);
// Calls `take` each time the option is given.
Option option_call(const char* name, const char* value, void (*take)(void*, const char*), void* address,
                   const char* help);

// Parses all arguments. Prints the help and exits with status 0 after --help; exits with an error if an argument is
// wrong. `more` is a second table, or NULL.
void command_line_parse(int argc, char** argv, const char* about, const Option* table, const Option* more);

#endif
