// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Severity of a log message. */
public enum LogLevel {
  /** A call has failed. */
  ERROR,
  /** There is a problem, but the library continues, for example with another method for an inverse root. */
  WARNING,
  /** Information for users. */
  INFORMATION,
  /** Details for debugging. */
  DEBUG
}
