// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Receives messages of the library. */
@FunctionalInterface
public interface LogCallback {
  /**
   * One message. It is called on a thread that is inside a call of the library, possibly on several at once, and must not
   * use the object that this call is using. An exception goes to the handler of uncaught exceptions of the thread, and
   * the call goes on.
   *
   * @param level how much it matters.
   * @param message the text.
   */
  void message(LogLevel level, String message);
}
