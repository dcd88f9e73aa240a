// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Element types. Parameters and gradients have a floating-point type. Integers occur only in the state. */
public enum DType {
  /** IEEE 754 binary32, 4 bytes: a {@code FloatBuffer} or {@code ByteBuffer}. */
  F32(RawConstants.SHAMPOO_F32, 4),
  /** IEEE 754 binary64, 8 bytes: a {@code DoubleBuffer} or {@code ByteBuffer}. */
  F64(RawConstants.SHAMPOO_F64, 8),
  /** IEEE 754 binary16, 2 bytes: a {@code ShortBuffer} or {@code ByteBuffer}. */
  F16(RawConstants.SHAMPOO_F16, 2),
  /** The upper half of a binary32, 2 bytes: a {@code ShortBuffer} or {@code ByteBuffer}. */
  BF16(RawConstants.SHAMPOO_BF16, 2),
  /** Signed integer, 4 bytes: an {@code IntBuffer} or {@code ByteBuffer}. */
  I32(RawConstants.SHAMPOO_I32, 4),
  /** Signed integer, 8 bytes: a {@code LongBuffer} or {@code ByteBuffer}. */
  I64(RawConstants.SHAMPOO_I64, 8);

  final int code;
  private final int bytes;

  DType(int code, int bytes) {
    this.code = code;
    this.bytes = bytes;
  }

  /**
   * Returns the size of an element.
   *
   * @return the size in bytes.
   */
  public int bytes() {
    return bytes;
  }

  static DType of(int code) {
    for (DType dtype : values()) {
      if (dtype.code == code) {
        return dtype;
      }
    }
    throw new ShampooException.Invalid(
        "the dtype has the code " + code + ", which is unknown to these Java classes: expected " + F32.code + " to "
            + I64.code + "; use a jar and native libraries of the same version");
  }
}
