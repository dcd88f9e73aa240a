// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_TESTS_EMBED_API_H
#define SHAMPOO_TESTS_EMBED_API_H

#include <shampoo/shampoo.h>

#ifdef __cplusplus
extern "C" {
#endif

// The functions of the library that the programs of tests/embed call. Calls through the struct api, which has a pointer
// to each function, work in programs that link the library and in programs that load it with dlopen.
#define API_FUNCTIONS(F)   \
  F(last_error)            \
  F(build_info)            \
  F(config_create)         \
  F(config_destroy)        \
  F(config_set_f64)        \
  F(config_set_str)        \
  F(plan_create)           \
  F(plan_destroy)          \
  F(plan_add_group)        \
  F(plan_add_param)        \
  F(plan_finish)           \
  F(plan_bytes)            \
  F(optimizer_create)      \
  F(optimizer_destroy)     \
  F(optimizer_bind)        \
  F(optimizer_bind_scalar) \
  F(optimizer_bind_state)  \
  F(optimizer_step)        \
  F(optimizer_stat)

typedef struct api {
#define API_MEMBER(name) __typeof__(shampoo_##name)* name;
  API_FUNCTIONS(API_MEMBER)
#undef API_MEMBER
  void* library;  // handle from dlopen; NULL in a program that links the library
} api;

// Returns the functions of the library that this program is linked with.
static inline api api_linked(void) {
#define API_ADDRESS(name) shampoo_##name,
  const api made = {API_FUNCTIONS(API_ADDRESS) NULL};
#undef API_ADDRESS
  return made;
}

// Loads the library with dlopen(RTLD_NOW | RTLD_LOCAL). Ends the program on failure.
api api_open(const char* path);

// Calls dlclose. The functions can still be called: shampoo.h says that dlclose() has no effect.
void api_close(const api* loaded);

#ifdef __cplusplus
}
#endif

#endif
