// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** What native code calls to deliver a message. */
final class LogCalls {
  private LogCalls() {}

  static void deliver(LogCallback callback, int level, byte[] message) {
    try {
      callback.message(LogLevel.values()[level], Text.fromBytes(message));
    } catch (Throwable thrown) {
      report(thrown);
    }
  }

  /** Nobody is there to catch it: the thread's handler, which prints it if nobody has set another. */
  static void report(Throwable thrown) {
    Thread thread = Thread.currentThread();
    thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
  }
}
