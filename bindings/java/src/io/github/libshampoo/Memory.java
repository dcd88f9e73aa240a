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
 * Memory that the library reads or writes in place: what remains of a direct buffer, or an address. Nothing is copied.
 * What was made of a buffer keeps it alive; what an address stands for is the caller's to keep. So is memory that somebody
 * frees under a buffer: the arena of a MemorySegment is not to be closed while its asByteBuffer() is bound.
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
   * Memory of a direct buffer in the native byte order, from its position to its limit as they are now.
   *
   * @param buffer of bytes, floats, doubles, shorts (float16, bfloat16), ints or longs.
   * @return the memory.
   * @throws ShampooException.Invalid the buffer is not direct, or of another byte order.
   */
  public static Memory of(Buffer buffer) {
    Objects.requireNonNull(buffer, "buffer");
    if (!buffer.isDirect()) {
      throw new ShampooException.Invalid(
          buffer + ": it is not direct, and the library works in place: use Shampoo.floats, doubles, shorts or bytes");
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
      throw new ShampooException.Invalid(buffer + ": a buffer of bytes, floats, doubles, shorts, ints or longs is expected");
    }
    if (order != ByteOrder.nativeOrder()) {
      throw new ShampooException.Invalid(
          buffer + ": its byte order is " + order + ", and that of the machine is " + ByteOrder.nativeOrder()
              + ": call order(ByteOrder.nativeOrder()) before it is filled or viewed");
    }
    int size = buffer instanceof ByteBuffer ? 1 : dtypes.iterator().next().bytes();
    long first = Raw.address(buffer) + (long) buffer.position() * size;
    return new Memory(buffer, first, (long) buffer.remaining() * size, dtypes);
  }

  /**
   * Memory at an address, which must be there for as long as it is bound: that of another library, memory of a GPU, or a
   * MemorySegment. The library reads and writes there; a wrong address ends the process.
   *
   * @param address of the first byte.
   * @param bytes how many there are.
   * @return the memory.
   * @throws ShampooException.Invalid the address is 0, or bytes are below 0.
   */
  public static Memory of(long address, long bytes) {
    if (address == 0 || bytes < 0) {
      throw new ShampooException.Invalid(
          "address " + address + " with " + bytes + " bytes: an address that is not 0, and 0 bytes or more, are expected");
    }
    return new Memory(null, address, bytes, EnumSet.allOf(DType.class));
  }

  /**
   * Where it begins: what the library is given.
   *
   * @return the address of the first byte.
   */
  public long address() {
    return address;
  }

  /**
   * Its size.
   *
   * @return the number of bytes.
   */
  public long bytes() {
    return bytes;
  }

  static long addressOf(Memory memory) {
    return memory != null ? memory.address : 0;
  }

  /** Refuses what does not hold so many elements of a type; what: how the text names it. */
  void check(String what, DType dtype, long elements, DeviceType device, boolean written) {
    if (!dtypes.contains(dtype)) {
      throw new ShampooException.Invalid(what + ": " + buffer + ", and a buffer of " + dtype + " is expected");
    }
    checkBytes(what, elements * dtype.bytes(), device, written);
  }

  void checkBytes(String what, long expected, DeviceType device, boolean written) {
    if (device != DeviceType.CPU && buffer != null) {
      throw new ShampooException.Invalid(
          what + ": " + buffer + " is memory of the host, and an address on the device is expected: Memory.of(address, bytes)");
    }
    if (bytes != expected) {
      throw new ShampooException.Invalid(what + ": " + bytes + " bytes, and " + expected + " are expected");
    }
    if (written && buffer != null && buffer.isReadOnly()) {
      throw new ShampooException.Invalid(what + ": the buffer is read-only, and a step writes to it");
    }
  }
}
