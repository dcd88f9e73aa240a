// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.Buffer;

/**
 * Memory of one parameter, each dense and row-major, in the shape of the parameter or of this rank's shard, aligned for
 * its type. What is written must overlap none of the others, but out may be param where both have one type.
 *
 * @param param read by a step: the parameter. May be null only where all are.
 * @param grad read by a step: the gradient; null: none, and the parameter and its state stay as they are.
 * @param out written by a step: the new parameter, or with the key "output" set to updates what is to be added to it. May
 *     be null only where grad is.
 * @param copy written by a step: the new parameter once more, such as a bfloat16 model beside float32 weights; or null.
 */
public record Binding(Memory param, Memory grad, Memory out, Memory copy) {
  /**
   * A parameter that is stepped in place; not with the key "output" set to updates, which need memory of their own.
   *
   * @param param direct buffer of the parameter.
   * @param grad direct buffer of its gradient; null: it has none.
   * @return the binding.
   * @throws ShampooException.Invalid as of {@link Memory#of(Buffer)}.
   */
  public static Binding inPlace(Buffer param, Buffer grad) {
    Memory memory = Memory.of(param);
    return new Binding(memory, grad != null ? Memory.of(grad) : null, memory, null);
  }

  /**
   * The same with another gradient.
   *
   * @param other the gradient; null: none.
   * @return another binding.
   */
  public Binding withGrad(Memory other) {
    return new Binding(param, other, out, copy);
  }

  Memory of(Role role) {
    return switch (role) {
      case PARAM -> param;
      case GRAD -> grad;
      case OUT -> out;
      case COPY -> copy;
    };
  }
}
