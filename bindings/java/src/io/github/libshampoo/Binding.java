// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.Buffer;

/**
 * The memory of one parameter. Each array is dense and row-major, has the shape of the parameter or of this rank's
 * shard, and is aligned for its type. Memory that a step writes must not overlap other bound memory, with one
 * exception: out may be the same memory as param if both have the same type.
 *
 * @param param the parameter, which a step reads. It may be null only if grad, out and copy are null, too.
 * @param grad the gradient, which a step reads. If grad is null, a step does not change the parameter. Of the states of
 *     the parameter, the step then changes only averages (keys "weight_ema" and "averaging").
 * @param out receives the new parameter or, with "output=updates", the update to be added to the parameter. It may be
 *     null only if grad is null.
 * @param copy receives a copy of the new parameter, for example in bfloat16 for the model if out is in float32. It may
 *     be null.
 */
public record Binding(Memory param, Memory grad, Memory out, Memory copy) {
  /**
   * Returns a binding of a parameter that steps update in place. Do not use this method with
   * "output=updates", because updates need separate memory.
   *
   * @param param direct buffer of the parameter.
   * @param grad direct buffer of the gradient, or null.
   * @return the binding.
   * @throws ShampooException.Invalid if {@link Memory#of(Buffer)} does not accept a buffer.
   */
  public static Binding inPlace(Buffer param, Buffer grad) {
    Memory memory = Memory.of(param);
    return new Binding(memory, grad != null ? Memory.of(grad) : null, memory, null);
  }

  /**
   * Returns a copy of this binding with another gradient.
   *
   * @param other the other gradient, or null.
   * @return the new binding.
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
