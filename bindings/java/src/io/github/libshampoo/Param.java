// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.Arrays;
import java.util.Objects;

/** Description of a parameter: its name, shape and options. It is immutable; methods return changed copies. */
public final class Param implements Cloneable {
  private final String name;
  private final long[] shape;
  private int stackDims;
  private ModelRole role = ModelRole.HIDDEN;
  private Fan fan = Fan.OUT_IN;
  private long[] rowSplits = {};
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
   * Describes a float32 parameter that is in group 0 and is not sharded.
   *
   * @param name a name that is unique in the plan and the same in every run, because checkpoints identify parameters by
   *     name.
   * @param shape shape in elements, outermost dim first, with at most 8 dims. A scalar has no dims. Parameters are
   *     row-major.
   */
  public Param(String name, long... shape) {
    this.name = Objects.requireNonNull(name, "name");
    this.shape = shape.clone();
    checkDims(shape.length, "dims");
  }

  private void checkDims(int count, String what) {
    if (count > 8) {
      throw new ShampooException.Invalid("parameter \"" + name + "\": " + count + " " + what + "; expected at most 8");
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
   * Sets the element type, which is also the default for the gradient, {@link Binding#out} and {@link Binding#copy}.
   *
   * @param value F32 (default), F64, F16 or BF16.
   * @return the changed copy.
   */
  public Param dtype(DType value) {
    Param other = copy();
    other.dtype = Objects.requireNonNull(value, "dtype");
    return other;
  }

  /**
   * Sets the element type of the gradient.
   *
   * @param value F32, F64, F16 or BF16.
   * @return the changed copy.
   */
  public Param gradDtype(DType value) {
    Param other = copy();
    other.gradDtype = Objects.requireNonNull(value, "gradDtype");
    return other;
  }

  /**
   * Sets the element type of {@link Binding#out}.
   *
   * @param value F32, F64, F16 or BF16.
   * @return the changed copy.
   */
  public Param outDtype(DType value) {
    Param other = copy();
    other.outDtype = Objects.requireNonNull(value, "outDtype");
    return other;
  }

  /**
   * Sets the element type of {@link Binding#copy}.
   *
   * @param value F32, F64, F16 or BF16.
   * @return the changed copy.
   */
  public Param copyDtype(DType value) {
    Param other = copy();
    other.copyDtype = Objects.requireNonNull(value, "copyDtype");
    return other;
  }

  /**
   * Sets the number of leading dims that only stack separate tensors.
   *
   * @param count 0 to the number of dims; 1 for the weights of L layers in one array of shape (L, m, n).
   * @return the changed copy.
   */
  public Param stackDims(int count) {
    Param other = copy();
    other.stackDims = count;
    return other;
  }

  /**
   * Sets the role in the model.
   *
   * @param value {@link ModelRole#HIDDEN} (default), VECTOR, EMBEDDING or HEAD.
   * @return the changed copy.
   */
  public Param role(ModelRole value) {
    Param other = copy();
    other.role = Objects.requireNonNull(value, "role");
    return other;
  }

  /**
   * Sets the sizes of the parts of a parameter that stores several tensors in one array, such as the projections q, k
   * and v.
   *
   * @param order selects the output dim, which is divided into the parts.
   * @param sizes at most 8 sizes. A single size is repeated along the whole output dim.
   * @return the changed copy.
   */
  public Param rowSplits(Fan order, long... sizes) {
    checkDims(sizes.length, "row splits");
    if (Arrays.stream(sizes).anyMatch(size -> size < 1)) {
      throw new ShampooException.Invalid("parameter \"" + name + "\": the row splits are " + Arrays.toString(sizes)
          + "; expected sizes of at least 1");
    }
    Param other = copy();
    other.fan = Objects.requireNonNull(order, "order");
    other.rowSplits = sizes.clone();
    return other;
  }

  /**
   * Sets the parameter group.
   *
   * @param number a result of {@link Plan#addGroup}; 0 (default) is the group with the config of the plan.
   * @return the changed copy.
   */
  public Param group(int number) {
    Param other = copy();
    other.group = number;
    return other;
  }

  /**
   * Declares that this rank holds a flat shard: consecutive elements of the row-major flattened parameter.
   *
   * @param offset index of the shard's first element in the flattened parameter.
   * @param count number of elements of the shard; may be 0.
   * @return the changed copy.
   */
  public Param flatShard(long offset, long count) {
    Param other = copy();
    other.shardForm = 1;
    other.flatOffset = offset;
    other.flatCount = count;
    return other;
  }

  /**
   * Declares that this rank holds a rectangle of the parameter. A plan checks that there are an offset and an extent
   * for each dim.
   *
   * @param offset first index of the rectangle along each dim.
   * @param extent size of the rectangle along each dim.
   * @return the changed copy.
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
   * Returns the name.
   *
   * @return the name.
   */
  public String name() {
    return name;
  }

  int dims() {
    return shape.length;
  }

  /** Returns the number of elements that this rank holds. */
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

  /** Throws if this describes a rectangle whose number of offsets or of extents is not {@code dims}. */
  private void checkRectangle(int dims) {
    if (shardForm == 2 && (localOffset.length != dims || localShape.length != dims)) {
      throw new ShampooException.Invalid(
          "parameter \"" + name + "\": the number of offsets of the rectangle is " + localOffset.length
              + ", and the number of its extents is " + localShape.length + "; expected " + dims
              + " for both, the number of dims of the parameter");
    }
  }

  /**
   * Returns the struct that describes the parameter. {@code dims} is the number of dims of the parameter in the plan.
   * For {@link Plan#addShard}, the shape in this object may have another number of dims, because nothing reads it.
   */
  shampoo_param_desc toRaw(int dims) {
    checkRectangle(dims);
    shampoo_param_desc desc = new shampoo_param_desc();
    desc.setName(name);
    desc.setNdim(shape.length);
    desc.setShape(shape);
    desc.setStack_dims(stackDims);
    desc.setRole(role.code);
    desc.setFan(fan.code);
    desc.setRow_splits(rowSplits);
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
