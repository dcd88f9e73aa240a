// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

/** An exception that ends the program. Train.main prints its message. */
final class Failure extends RuntimeException {
  private static final long serialVersionUID = 1;

  Failure(String text) {
    super(text);
  }
}
