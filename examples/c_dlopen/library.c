// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "library.h"

#include <dlfcn.h>
#include <string.h>

#include "check.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
const char library_soname[] = "libshampoo.so." TEXT(SHAMPOO_VERSION_MAJOR);

// ISO C has no conversion from an object pointer to a function pointer; POSIX promises that the bytes are right.
static void find(const Library* library, const char* path, const char* name, void* function) {
  void* const found = dlsym(library->handle, name);
  if (found == NULL) fail("%s has no %s: it is no libshampoo, or an older one than this program needs", path, name);
  memcpy(function, &found, sizeof found);
}

// Before 1.0 a minor version may change the API; afterwards a later one only adds to it.
static void check_version(const Library* library, const char* path) {
  const int found = (int)library->version(), major = found / 10000, minor = found / 100 % 100;
  const int fits =
      major == SHAMPOO_VERSION_MAJOR && (major == 0 ? minor == SHAMPOO_VERSION_MINOR : minor >= SHAMPOO_VERSION_MINOR);
  if (!fits) {
    fail(
        "%s is libshampoo %d.%d.%d, and this program was compiled with the header of %d.%d.%d: give it a library of "
        "%d.%d",
        path, major, minor, found % 100, SHAMPOO_VERSION_MAJOR, SHAMPOO_VERSION_MINOR, SHAMPOO_VERSION_PATCH,
        SHAMPOO_VERSION_MAJOR, SHAMPOO_VERSION_MINOR);
  }
}

void library_open(Library* library, const char* path) {
  // RTLD_LOCAL: what is in the library, its BLAS too, is seen by nobody else.
  library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library->handle == NULL) fail("%s: give the file by --library, or its folder in LD_LIBRARY_PATH", dlerror());
  find(library, path, "shampoo_version", &library->version);
  check_version(library, path);  // before all else, so that another version is told as what it is
#define LIBRARY_FIND(name) find(library, path, "shampoo_" #name, &library->name);
  LIBRARY_FUNCTIONS(LIBRARY_FIND)
#undef LIBRARY_FIND
}

void library_close(Library* library) { dlclose(library->handle); }

void library_check(const Library* library, shampoo_status status, const char* what) {
  if (status != SHAMPOO_OK) fail("%s: %s (%s)", what, library->last_error(), library->status_name(status));
}
