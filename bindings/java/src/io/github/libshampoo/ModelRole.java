// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/**
 * Role of a parameter in the model. With the methods "shampoo", "soap" and "kl_shampoo", only parameters with the role
 * HIDDEN have factor matrices, unless route=off is set. A bias or a scale that is stored as a vector needs no role.
 */
public enum ModelRole {
  /** A weight inside the model. */
  HIDDEN(RawConstants.SHAMPOO_HIDDEN),
  /** A bias or a scale that is stored as a matrix. */
  VECTOR(RawConstants.SHAMPOO_VECTOR),
  /** An embedding table, of which each training step uses only some rows. */
  EMBEDDING(RawConstants.SHAMPOO_EMBEDDING),
  /** The last layer, with one output for each class or token. */
  HEAD(RawConstants.SHAMPOO_HEAD);

  final int code;

  ModelRole(int code) {
    this.code = code;
  }
}
