// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

/** What ends the program, told in a sentence. */
final class Failure extends RuntimeException {
  private static final long serialVersionUID = 1;

  Failure(String text) {
    super(text);
  }
}
