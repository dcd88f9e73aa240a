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

  /** Calls the thread's handler for uncaught exceptions, which prints the exception by default. */
  static void report(Throwable thrown) {
    Thread thread = Thread.currentThread();
    thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
  }
}
