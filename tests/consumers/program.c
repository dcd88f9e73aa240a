/* Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 * A minimal program that uses the library. The tests build this program in each way in which a build can find the
 * library, such as pkg-config. If PROGRAM_LOADS is defined, the program is not linked with the library. Instead, the
 * program loads the library from the path in its argument. */
#include <shampoo/shampoo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* These functions have the names of functions inside the library. The library must call its own functions, not these,
 * which end the program. */
void cblas_dgemm(void) { abort(); }
void dsyevd_(void) { abort(); }
void dsteqr_(void) { abort(); }
void xerbla_(void) { abort(); }

#ifdef PROGRAM_LOADS
#include <dlfcn.h>
#include <shampoo/api.h>
#endif

int main(int argc, char** argv) {
  shampoo_config* config = NULL;
  double a[16] = {2, 1, 0, 0, 1, 2, 0, 0, 0, 0, 2, 1, 0, 0, 1, 2}, x[16], error = 0;
  int i, j, k;
#ifdef PROGRAM_LOADS
  const shampoo_api* api;
  shampoo_get_api_function get_api;
  void* const library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  void* const found = library == NULL ? NULL : dlsym(library, "shampoo_get_api");
  if (found == NULL) return puts("usage: program LIBRARY"), 1;
  memcpy(&get_api, &found, sizeof found);
  api = get_api();
#define shampoo_version api->version
#define shampoo_config_create api->config_create
#define shampoo_config_set_f64 api->config_set_f64
#define shampoo_config_destroy api->config_destroy
#define shampoo_matrix_inverse_root api->matrix_inverse_root
#else
  (void)argc, (void)argv;
#endif
  if (shampoo_config_create(&config) != SHAMPOO_OK) return 1;
  if (shampoo_config_set_f64(config, "epsilon", 1e-12) != SHAMPOO_OK) return 1;
  /* x = a^(-1/2), so that x a x is the identity. */
  if (shampoo_matrix_inverse_root(config, 4, SHAMPOO_F64, a, x, 2, 1, NULL) != SHAMPOO_OK) return 1;
  shampoo_config_destroy(config);
  for (i = 0; i < 4; ++i) {
    for (j = 0; j < 4; ++j) {
      double sum = i == j ? -1 : 0;
      for (k = 0; k < 16; ++k) sum += x[4 * i + k / 4] * a[k] * x[4 * (k % 4) + j];
      error += sum < 0 ? -sum : sum;
    }
  }
  printf("%d.%d.%d\n", SHAMPOO_VERSION_MAJOR, SHAMPOO_VERSION_MINOR, SHAMPOO_VERSION_PATCH);
  return error < 1e-9 && shampoo_version() / 100 == 100 * SHAMPOO_VERSION_MAJOR + SHAMPOO_VERSION_MINOR ? 0 : 1;
}
