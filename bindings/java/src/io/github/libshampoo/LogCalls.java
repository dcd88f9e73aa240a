// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Functions through which native code delivers log messages. */
final class LogCalls {
  private LogCalls() {}

  static void deliver(LogCallback callback, int level, byte[] message) {
    try {
      callback.message(LogLevel.values()[level], Text.fromBytes(message));
    } catch (Throwable thrown) {
      report(thrown);
    }
  }

  /** Passes an exception that no caller can catch to the thread's handler, which prints it by default. */
  static void report(Throwable thrown) {
    Thread thread = Thread.currentThread();
    thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
  }
}
