// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** A program that LoaderTest runs. It loads the library, and prints the version of the library or the error. */
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
