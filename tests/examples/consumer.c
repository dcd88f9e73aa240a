/* Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 * The least that a user of the installed library does. */
#include <shampoo/shampoo.h>
#include <stdio.h>

int main(void) {
  shampoo_config* config = NULL;
  double a[4] = {4.0, 0.0, 0.0, 9.0};
  double x[4];
  if (shampoo_config_create(&config) != SHAMPOO_OK) return 1;
  if (shampoo_config_set_f64(config, "epsilon", 0.0) != SHAMPOO_OK) return 1;
  if (shampoo_matrix_inverse_root(config, 2, SHAMPOO_F64, a, x, 2, 1, NULL) != SHAMPOO_OK) return 1;
  shampoo_config_destroy(config);
  printf("%d.%d.%d\n", SHAMPOO_VERSION_MAJOR, SHAMPOO_VERSION_MINOR, SHAMPOO_VERSION_PATCH);
  return x[0] == 0.5 && x[1] == 0.0 && x[3] == 1.0 / 3.0 ? 0 : 1;
}
