// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Which dim of a weight is the output dim. Stack dims are not counted. */
public enum Fan {
  /** The first dim is the output dim, as in PyTorch. */
  OUT_IN(RawConstants.SHAMPOO_OUT_IN),
  /** The last dim is the output dim, as in JAX. */
  IN_OUT(RawConstants.SHAMPOO_IN_OUT);

  final int code;

  Fan(int code) {
    this.code = code;
  }
}
