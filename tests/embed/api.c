// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/embed/api.h"

#include <dlfcn.h>
#include <string.h>

#include "tests/embed/require.h"

// ISO C does not allow a conversion from an object pointer to a function pointer. POSIX guarantees that copying the
// bytes works.
static void find(void* library, const char* name, void* function, size_t bytes) {
  void* const found = dlsym(library, name);
  REQUIRE(found != NULL, "no %s: %s", name, dlerror());
  memcpy(function, &found, bytes);
}

api api_open(const char* path) {
  api made;
  made.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(made.library != NULL, "%s", dlerror());
#define API_FIND(name) find(made.library, "shampoo_" #name, &made.name, sizeof made.name);
  API_FUNCTIONS(API_FIND)
#undef API_FIND
  return made;
}

void api_close(const api* loaded) { REQUIRE(dlclose(loaded->library) == 0, "%s", dlerror()); }
