// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Receives log messages of the library. */
@FunctionalInterface
public interface LogCallback {
  /**
   * Receives a message. The method runs on the thread that called the library, possibly on several such threads at the
   * same time. It must not use the object of that call, such as the optimizer. If this method throws an exception, the
   * exception is passed to the thread's handler for uncaught exceptions, and the call of the library continues.
   *
   * @param level severity of the message.
   * @param message the message.
   */
  void message(LogLevel level, String message);
}
