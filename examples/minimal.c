/* Copyright The libshampoo authors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <shampoo/shampoo.h>
#include <stdio.h>

int main(void) {
  float w[6] = {1, 2, 3, 4, 5, 6}, g[6]; /* a 2 x 3 matrix and its gradient */
  shampoo_tensor tensor = {.name = "w", .data = w, .grad = g, .ndim = 2, .shape = {2, 3}};
  shampoo_optimizer* opt;
  if (shampoo_create(&opt, "lr=0.1", &tensor, 1)) return puts(shampoo_last_error()), 1;
  for (int step = 0; step < 200; ++step) {
    for (int i = 0; i < 6; ++i) g[i] = w[i]; /* the gradient of |w|^2 / 2 */
    if (shampoo_optimizer_step(opt, NULL)) return puts(shampoo_last_error()), 1;
  }
  printf("w = %g %g %g %g %g %g\n", w[0], w[1], w[2], w[3], w[4], w[5]);
  shampoo_optimizer_destroy(opt);
}
