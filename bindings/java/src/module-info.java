// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

/** Shampoo optimizers, which update parameters in direct buffers. */
module io.github.libshampoo {
  exports io.github.libshampoo;
}
