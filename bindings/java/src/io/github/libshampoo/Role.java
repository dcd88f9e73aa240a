// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** What a buffer of a parameter is for. */
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
