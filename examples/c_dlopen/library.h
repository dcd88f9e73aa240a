// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// libshampoo as a table of functions that dlopen found. No function of it is named where the linker could see it.
#ifndef C_DLOPEN_LIBRARY_H
#define C_DLOPEN_LIBRARY_H

#include <shampoo/shampoo.h>

// What this program calls. A new function is a new line here: its type is the one that the header declares.
#define LIBRARY_FUNCTIONS(F) \
  F(version)                 \
  F(build_info)              \
  F(status_name)             \
  F(last_error)              \
  F(set_log)                 \
  F(backend_count)           \
  F(backend_describe)        \
  F(config_create)           \
  F(config_set_str)          \
  F(config_destroy)          \
  F(plan_create)             \
  F(plan_add_param)          \
  F(plan_finish)             \
  F(plan_destroy)            \
  F(optimizer_create)        \
  F(optimizer_bind)          \
  F(optimizer_get)           \
  F(optimizer_set)           \
  F(optimizer_step)          \
  F(optimizer_destroy)

typedef struct {
  void* handle;  // of dlopen
#define LIBRARY_MEMBER(name) __typeof__(shampoo_##name)* name;
  LIBRARY_FUNCTIONS(LIBRARY_MEMBER)
#undef LIBRARY_MEMBER
} Library;

// The name that a system finds the library of this header by.
extern const char library_soname[];

// Loads a library and finds its functions. One that is not there, lacks a function, or is of a version that this
// program was not compiled for ends the program with a message.
void library_open(Library* library, const char* path);

// The library stays mapped, as it promises; the table is not to be used any more.
void library_close(Library* library);

// Ends the program where the status is that of a failure. what: what was tried, for the message.
void library_check(const Library* library, shampoo_status status, const char* what);

#endif
