// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.EnumSet;
import java.util.Objects;
import java.util.Set;

/**
 * Memory that the library reads or writes in place, without a copy: the remaining elements of a direct buffer, or a
 * range of addresses.
 *
 * <p>A Memory of a buffer keeps the buffer alive. The caller must keep two kinds of memory valid while they are bound:
 * memory that was passed as an address, and memory of a MemorySegment whose asByteBuffer() is bound.
 */
public final class Memory {
  private final Buffer buffer;
  private final long address;
  private final long bytes;
  private final Set<DType> dtypes;

  private Memory(Buffer buffer, long address, long bytes, Set<DType> dtypes) {
    this.buffer = buffer;
    this.address = address;
    this.bytes = bytes;
    this.dtypes = dtypes;
  }

  /**
   * Returns the memory of a direct buffer in the native byte order, from its current position to its current limit.
   *
   * @param buffer a buffer of bytes, floats, doubles, shorts (float16, bfloat16), ints or longs.
   * @return the memory.
   * @throws ShampooException.Invalid if the buffer is not direct, or has another byte order.
   */
  public static Memory of(Buffer buffer) {
    Objects.requireNonNull(buffer, "buffer");
    if (!buffer.isDirect()) {
      throw new ShampooException.Invalid(
          buffer + " is not direct: expected a direct buffer, because the library reads and writes buffers in place; "
              + "allocate the buffer with Shampoo.floats, doubles, shorts or bytes");
    }
    ByteOrder order;
    Set<DType> dtypes;
    if (buffer instanceof ByteBuffer plain) {
      order = plain.order();
      dtypes = EnumSet.allOf(DType.class);
    } else if (buffer instanceof FloatBuffer floats) {
      order = floats.order();
      dtypes = EnumSet.of(DType.F32);
    } else if (buffer instanceof DoubleBuffer doubles) {
      order = doubles.order();
      dtypes = EnumSet.of(DType.F64);
    } else if (buffer instanceof ShortBuffer shorts) {
      order = shorts.order();
      dtypes = EnumSet.of(DType.F16, DType.BF16);
    } else if (buffer instanceof IntBuffer ints) {
      order = ints.order();
      dtypes = EnumSet.of(DType.I32);
    } else if (buffer instanceof LongBuffer longs) {
      order = longs.order();
      dtypes = EnumSet.of(DType.I64);
    } else {
      throw new ShampooException.Invalid(
          "buffer is a CharBuffer: expected a buffer of bytes, floats, doubles, shorts, ints or longs");
    }
    if (order != ByteOrder.nativeOrder()) {
      throw new ShampooException.Invalid(
          buffer + " has byte order " + order + ": expected " + ByteOrder.nativeOrder() + ", the byte order of the "
              + "machine; call order(ByteOrder.nativeOrder()) on the ByteBuffer before you fill it or create a view of "
              + "it");
    }
    int size = buffer instanceof ByteBuffer ? 1 : dtypes.iterator().next().bytes();
    long first = Raw.address(buffer) + (long) buffer.position() * size;
    return new Memory(buffer, first, (long) buffer.remaining() * size, dtypes);
  }

  /**
   * Returns the memory at an address: memory of another library, of a GPU or of a MemorySegment. The memory must stay
   * valid while it is bound. A wrong address crashes the process.
   *
   * @param address address of the first byte.
   * @param bytes size in bytes.
   * @return the memory.
   * @throws ShampooException.Invalid if the address is 0, or the size is negative.
   */
  public static Memory of(long address, long bytes) {
    if (address == 0 || bytes < 0) {
      throw new ShampooException.Invalid(
          "address " + address + " with " + bytes
              + " bytes; expected an address other than 0, and a size of at least 0");
    }
    return new Memory(null, address, bytes, EnumSet.allOf(DType.class));
  }

  /**
   * Returns the address.
   *
   * @return the address of the first byte.
   */
  public long address() {
    return address;
  }

  /**
   * Returns the size.
   *
   * @return the number of bytes.
   */
  public long bytes() {
    return bytes;
  }

  static long addressOf(Memory memory) {
    return memory != null ? memory.address : 0;
  }

  /**
   * Throws if the buffer cannot contain elements of the dtype, if the size is not exactly that of the elements, if the
   * memory is a buffer but the device is a GPU, or if {@code written} is true but the buffer is read-only.
   *
   * @param what description of the memory, with which the error message begins.
   * @param written whether the library writes to the memory.
   */
  void check(String what, DType dtype, long elements, DeviceType device, boolean written) {
    if (!dtypes.contains(dtype)) {
      throw new ShampooException.Invalid(
          what + ": " + buffer + "; expected a buffer of " + dtype + " elements (see DType." + dtype + ")");
    }
    checkBytes(what, elements * dtype.bytes(), device, written);
  }

  void checkBytes(String what, long expected, DeviceType device, boolean written) {
    if (device != DeviceType.CPU && buffer != null) {
      throw new ShampooException.Invalid(
          what + ": " + buffer + " is in host memory; expected an address on the device: Memory.of(address, bytes)");
    }
    if (bytes != expected) {
      throw new ShampooException.Invalid(what + ": " + bytes + " bytes; expected " + expected + " bytes");
    }
    if (written && buffer != null && buffer.isReadOnly()) {
      throw new ShampooException.Invalid(
          what + ": the buffer is read-only, and the library writes to it; pass a writable buffer");
    }
  }
}
