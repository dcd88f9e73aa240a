// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.Arrays;
import java.util.Objects;

/** One parameter of a plan: name, shape and what else differs from the defaults. It does not change: methods give others. */
public final class Param implements Cloneable {
  private final String name;
  private final long[] shape;
  private int stackDims;
  private int group;
  private DType dtype = DType.F32;
  private DType gradDtype;
  private DType outDtype;
  private DType copyDtype;
  private int shardForm;
  private long flatOffset;
  private long flatCount;
  private long[] localOffset = {};
  private long[] localShape = {};

  /**
   * A float32 parameter, whole, in group 0.
   *
   * @param name unique within the plan and the same in every run: checkpoints know parameters by it.
   * @param shape extents in elements, outermost dim first; at most 8, none for a scalar. The parameter is row-major.
   */
  public Param(String name, long... shape) {
    this.name = Objects.requireNonNull(name, "name");
    this.shape = shape.clone();
    checkDims(shape.length, "dims");
  }

  private void checkDims(int count, String what) {
    if (count > 8) {
      throw new ShampooException.Invalid("parameter \"" + name + "\": " + count + " " + what + ": there can be 8 at most");
    }
  }

  private Param copy() {
    try {
      return (Param) clone();
    } catch (CloneNotSupportedException impossible) {
      throw new AssertionError(impossible);
    }
  }

  /**
   * Says of what type the elements are; gradient, output and copy have the same, unless they are told otherwise.
   *
   * @param value F32 (default), F64, F16 or BF16.
   * @return another description.
   */
  public Param dtype(DType value) {
    Param other = copy();
    other.dtype = Objects.requireNonNull(value, "dtype");
    return other;
  }

  /**
   * Says of what type the gradient is.
   *
   * @param value F32, F64, F16 or BF16.
   * @return another description.
   */
  public Param gradDtype(DType value) {
    Param other = copy();
    other.gradDtype = Objects.requireNonNull(value, "gradDtype");
    return other;
  }

  /**
   * Says of what type {@link Binding#out} is.
   *
   * @param value F32, F64, F16 or BF16.
   * @return another description.
   */
  public Param outDtype(DType value) {
    Param other = copy();
    other.outDtype = Objects.requireNonNull(value, "outDtype");
    return other;
  }

  /**
   * Says of what type {@link Binding#copy} is.
   *
   * @param value F32, F64, F16 or BF16.
   * @return another description.
   */
  public Param copyDtype(DType value) {
    Param other = copy();
    other.copyDtype = Objects.requireNonNull(value, "copyDtype");
    return other;
  }

  /**
   * Says how many leading dims only stack separate tensors.
   *
   * @param count 0 to the number of dims; 1 for weights of L layers in one array of shape (L, m, n).
   * @return another description.
   */
  public Param stackDims(int count) {
    Param other = copy();
    other.stackDims = count;
    return other;
  }

  /**
   * Puts it into a parameter group.
   *
   * @param number what {@link Plan#addGroup} gave; 0 (default) is the group of the plan's own config.
   * @return another description.
   */
  public Param group(int number) {
    Param other = copy();
    other.group = number;
    return other;
  }

  /**
   * Says that this rank holds a flat shard of it.
   *
   * @param offset first element of the row-major flattened parameter.
   * @param count number of elements; 0: nothing.
   * @return another description.
   */
  public Param flatShard(long offset, long count) {
    Param other = copy();
    other.shardForm = 1;
    other.flatOffset = offset;
    other.flatCount = count;
    return other;
  }

  /**
   * Says that this rank holds a rectangle of it.
   *
   * @param offset first index along each dim.
   * @param extent of the rectangle along each dim.
   * @return another description; a plan refuses one with another number of either than the parameter has dims.
   */
  public Param rectangle(long[] offset, long[] extent) {
    checkDims(offset.length, "offsets");
    checkDims(extent.length, "extents");
    Param other = copy();
    other.shardForm = 2;
    other.localOffset = offset.clone();
    other.localShape = extent.clone();
    return other;
  }

  /**
   * The name.
   *
   * @return as it was given.
   */
  public String name() {
    return name;
  }

  int dims() {
    return shape.length;
  }

  /** Elements of the buffers of this rank. */
  long localElements() {
    if (shardForm == 1) {
      return flatCount;
    }
    return Arrays.stream(shardForm == 2 ? localShape : shape).reduce(1L, (a, b) -> a * b);
  }

  private DType orDtype(DType value) {
    return value != null ? value : dtype;
  }

  DType dtypeOf(Role role) {
    return switch (role) {
      case PARAM -> dtype;
      case GRAD -> orDtype(gradDtype);
      case OUT -> orDtype(outDtype);
      case COPY -> orDtype(copyDtype);
    };
  }

  int group() {
    return group;
  }

  /** Refuses a rectangle that has not one offset and one extent for each dim. */
  private void checkRectangle(int dims) {
    if (shardForm == 2 && (localOffset.length != dims || localShape.length != dims)) {
      throw new ShampooException.Invalid(
          "parameter \"" + name + "\": the rectangle has " + localOffset.length + " offsets and " + localShape.length
              + " extents, and the parameter " + dims + " dims: give one of each for each dim");
    }
  }

  /** What the library takes; dims: of the parameter that it is of. */
  shampoo_param_desc toRaw(int dims) {
    checkRectangle(dims);
    shampoo_param_desc desc = new shampoo_param_desc();
    desc.setName(name);
    desc.setNdim(shape.length);
    desc.setShape(shape);
    desc.setStack_dims(stackDims);
    desc.setGroup(group);
    desc.setParam_dtype(dtype.code);
    desc.setGrad_dtype(dtypeOf(Role.GRAD).code);
    desc.setOut_dtype(dtypeOf(Role.OUT).code);
    desc.setCopy_dtype(dtypeOf(Role.COPY).code);
    desc.setShard_form(shardForm);
    desc.setFlat_offset(flatOffset);
    desc.setFlat_count(flatCount);
    desc.setLocal_offset(localOffset);
    desc.setLocal_shape(localShape);
    return desc;
  }
}
