// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/** Creates direct buffers in the native byte order, and copies buffers to arrays. */
final class Buffers {
  private Buffers() {}

  static ByteBuffer bytes(int count) {
    return ByteBuffer.allocateDirect(count).order(ByteOrder.nativeOrder());
  }

  static FloatBuffer floats(float... values) {
    return bytes(4 * values.length).asFloatBuffer().put(values).flip();
  }

  static FloatBuffer filled(int count, float value) {
    FloatBuffer buffer = bytes(4 * count).asFloatBuffer();
    while (buffer.hasRemaining()) {
      buffer.put(value);
    }
    return buffer.flip();
  }

  static float[] copy(FloatBuffer buffer) {
    float[] values = new float[buffer.remaining()];
    buffer.duplicate().get(values);
    return values;
  }
}
