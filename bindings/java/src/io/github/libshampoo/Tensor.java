// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.Buffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.util.Objects;

/** A parameter with its gradient, for {@link Optimizer#create}. The fields of a {@code Tensor} never change. */
public final class Tensor {
  final Param param;
  final Buffer data;
  final Buffer grad;

  /**
   * Describes a float32 or float64 parameter.
   *
   * @param name a name that is unique and the same in every run, because checkpoints identify parameters by name.
   * @param data direct buffer of the parameter, which steps update: a {@code FloatBuffer} or {@code DoubleBuffer}.
   * @param grad direct buffer of the gradient, of the same type as data; null if there is no gradient yet.
   * @param shape shape in elements, outermost dim first; at most 8 dims, none for a scalar. Buffers are row-major.
   * @throws ShampooException.Invalid if the type of data does not imply the element type, or there are too many dims.
   */
  public Tensor(String name, Buffer data, Buffer grad, long... shape) {
    this(dtypeOf(name, data), name, data, grad, shape);
  }

  /**
   * Describes a parameter of any element type.
   *
   * @param dtype element type of data and grad: F32, F64, F16 or BF16.
   * @param name as in {@link #Tensor(String, Buffer, Buffer, long...)}.
   * @param data direct buffer of the parameter, which steps update.
   * @param grad direct buffer of the gradient; null if there is no gradient yet.
   * @param shape as in {@link #Tensor(String, Buffer, Buffer, long...)}.
   * @throws ShampooException.Invalid if there are too many dims.
   */
  public Tensor(DType dtype, String name, Buffer data, Buffer grad, long... shape) {
    this.param = new Param(name, shape).dtype(dtype);
    this.data = Objects.requireNonNull(data, "data");
    this.grad = grad;
  }

  private static DType dtypeOf(String name, Buffer data) {
    if (data instanceof FloatBuffer) {
      return DType.F32;
    }
    if (data instanceof DoubleBuffer) {
      return DType.F64;
    }
    Objects.requireNonNull(data, "data");
    throw new ShampooException.Invalid(
        "tensor \"" + name + "\": data is a " + data.getClass().getSimpleName()
            + "; expected a FloatBuffer or DoubleBuffer. For other types, pass a DType as the first argument");
  }
}
