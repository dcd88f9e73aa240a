// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Role of a buffer in a {@link Binding}. */
enum Role {
  PARAM("parameter"),
  GRAD("gradient of"),
  OUT("output of"),
  COPY("copy of");

  private final String label;

  Role(String label) {
    this.label = label;
  }

  boolean isWritten() {
    return this == OUT || this == COPY;
  }

  String of(Param param) {
    return label + " \"" + param.name() + "\"";
  }
}
