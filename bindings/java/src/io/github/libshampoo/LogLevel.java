// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** How much a message matters. */
public enum LogLevel {
  /** What failed. */
  ERROR,
  /** What went on otherwise than asked, such as an inverse root that was computed by another method. */
  WARNING,
  /** What a user may want to know. */
  INFORMATION,
  /** Everything. */
  DEBUG
}
