// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "library.h"

#include <dlfcn.h>
#include <string.h>

#include "check.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
const char library_soname[] = "libshampoo.so." TEXT(SHAMPOO_VERSION_MAJOR);

// Exits with an error if the library's version does not guarantee the API of the header. Before version 1.0, a new
// minor version may change the API. From 1.0 on, a new minor version only extends the API.
static void check_version(const shampoo_api* api, const char* path) {
  const int found = (int)api->version(), major = found / 10000, minor = found / 100 % 100;
  const int fits =
      major == SHAMPOO_VERSION_MAJOR && (major == 0 ? minor == SHAMPOO_VERSION_MINOR : minor >= SHAMPOO_VERSION_MINOR);
  if (!fits) {
    fail(
        "%s is libshampoo %d.%d.%d; this program was compiled with the header of version %d.%d.%d. Use a library of "
        "version %d.%d",
        path, major, minor, found % 100, SHAMPOO_VERSION_MAJOR, SHAMPOO_VERSION_MINOR, SHAMPOO_VERSION_PATCH,
        SHAMPOO_VERSION_MAJOR, SHAMPOO_VERSION_MINOR);
  }
}

const shampoo_api* library_open(const char* path) {
  // RTLD_LOCAL: the symbols of the library and of its BLAS stay invisible to everything else in the process.
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail("%s; pass the file with --library, or set LD_LIBRARY_PATH to its folder", dlerror());
  void* const found = dlsym(library, "shampoo_get_api");
  if (found == NULL) fail("%s has no shampoo_get_api: it is not libshampoo", path);
  // ISO C has no conversion from an object pointer to a function pointer. POSIX guarantees that the two kinds of
  // pointers have equal representations.
  shampoo_get_api_function get_api;
  memcpy(&get_api, &found, sizeof found);
  const shampoo_api* const api = get_api();
  check_version(api, path);
  return api;
}

void library_check(const shampoo_api* api, shampoo_status status, const char* what) {
  if (status != SHAMPOO_OK) fail("%s: %s (%s)", what, api->last_error(), api->status_name(status));
}
