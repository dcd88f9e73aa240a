// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** The functions of foreign.c. */
final class Foreign {
  static {
    Shampoo.version(); // loads the library of the jar first
    System.load(System.getProperty("shampoo.foreign"));
  }

  private Foreign() {}

  static native int warn();

  static native int step(long optimizer);

  static native long ops();

  static native int exchanges();

  static native int releases();
}
