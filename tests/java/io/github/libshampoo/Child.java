// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** A program of its own, which uses the library and says what it met. */
final class Child {
  private Child() {}

  public static void main(String[] args) {
    try {
      System.out.println("version " + Shampoo.version());
    } catch (UnsatisfiedLinkError error) {
      System.out.println("rejected: " + error.getMessage());
    }
  }
}
