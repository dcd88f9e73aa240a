// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Severity of a log message. */
public enum LogLevel {
  /** A call has failed. */
  ERROR,
  /** The library had to deviate from a setting, for example compute an inverse root with another method. */
  WARNING,
  /** Information for users. */
  INFORMATION,
  /** Details for debugging. */
  DEBUG
}
