// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

/** Shampoo optimizers over direct buffers. */
module io.github.libshampoo {
  exports io.github.libshampoo;
}
