// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Native methods, which foreign.c implements. */
final class Foreign {
  static {
    Shampoo.version(); // loads the library in the jar; foreign.c calls this library
    System.load(System.getProperty("shampoo.foreign"));
  }

  private Foreign() {}

  /** Makes the library log a warning on a thread that is not attached to the JVM. Returns the status. */
  static native int warn();

  /** Makes a step on a thread that is not attached to the JVM. Returns the status. */
  static native int step(long optimizer);

  /** Returns the address of a shampoo_comm_ops with callbacks in C. exchanges() and releases() count the calls of its
   * callbacks all_gather and release. */
  static native long ops();

  static native int exchanges();

  static native int releases();

  /** Opens a library, and returns whether it has the functions of the CUDA runtime that the next methods call. */
  static native boolean openCuda(String path);

  /** Copies the values to new device memory, which is never freed. Returns its address, or 0 after a failure. */
  static native long putOnDevice(float[] values);

  /** Waits for the device, and copies values from device memory. Returns whether the wait and the copy succeeded. */
  static native boolean getFromDevice(long address, float[] values);
}
