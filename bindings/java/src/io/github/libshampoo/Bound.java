// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Checks memory, binds it to an optimizer, and keeps it alive until other memory is bound in its place. */
final class Bound {
  private final List<Param> params;
  private final List<Boolean> updates;
  private final DeviceType device;
  private final long stateBytes;
  private final Binding[] bindings;

  // These references only keep the memory alive.
  private final Map<String, Memory> scalars = new HashMap<>();
  private final Memory ownState;
  private Memory stateIn;
  private Memory stateOut;

  Bound(List<Param> params, List<Boolean> updates, DeviceType device, long stateBytes, Memory ownState) {
    this.params = params;
    this.updates = updates;
    this.device = device;
    this.stateBytes = stateBytes;
    this.bindings = new Binding[params.size()];
    this.ownState = ownState;
  }

  /** Returns the binding of a parameter, or null if the parameter has not been bound. */
  Binding binding(int index) {
    return bindings[index];
  }

  int indexOf(String name) {
    for (int index = 0; index < params.size(); ++index) {
      if (params.get(index).name().equals(name)) {
        return index;
      }
    }
    throw new ShampooException.Invalid("name is \"" + name + "\": expected the name of a parameter of the plan");
  }

  /** Binds consecutive parameters. If a step cannot use one of the bindings, throws and binds none of them. */
  void bind(long opt, int first, List<Binding> added) {
    if (first < 0 || added.size() > params.size() - first) {
      throw new ShampooException.Invalid(
          "first is " + first + " and the number of bindings is " + added.size() + ": expected a range within [0, "
              + params.size() + "), the indices of the parameters");
    }
    long[] addresses = new long[4 * added.size()];
    for (int number = 0; number < added.size(); ++number) {
      Param param = params.get(first + number);
      for (Role role : Role.values()) {
        Memory memory = added.get(number).of(role);
        if (memory != null) {
          memory.check(role.of(param), param.dtypeOf(role), param.localElements(), device, role.isWritten());
          addresses[4 * number + role.ordinal()] = memory.address();
        }
      }
    }
    for (int number = 0; number < added.size(); ++number) {
      checkOut(first + number, added.get(number));
    }
    Raw.shampoo_optimizer_bind(opt, first, addresses);
    for (int number = 0; number < added.size(); ++number) {
      bindings[first + number] = added.get(number);
    }
  }

  /** Writes the averages of the parameters to {@code weights}. A null element skips its parameter. */
  void export(long opt, double blend, List<Memory> weights) {
    if (weights.size() != params.size()) {
      throw new ShampooException.Invalid(
          "weights has length " + weights.size() + "; expected " + params.size() + ", one element for each parameter");
    }
    long[] addresses = new long[weights.size()];
    for (int index = 0; index < addresses.length; ++index) {
      Param param = params.get(index);
      if (weights.get(index) != null) {
        weights.get(index).check(
            "weights of " + Role.PARAM.of(param), param.dtypeOf(Role.OUT), param.localElements(), device, true);
      }
      addresses[index] = Memory.addressOf(weights.get(index));
    }
    Raw.shampoo_optimizer_export(opt, blend, addresses);
  }

  /** Throws if steps would write updates to the memory of the parameter. */
  private void checkOut(int index, Binding added) {
    if (updates.get(index) && added.param() != null && Memory.addressOf(added.param()) == Memory.addressOf(added.out())) {
      throw new ShampooException.Invalid(
          Role.OUT.of(params.get(index)) + ": out is the same memory as param, but the key \"output\" is set to "
              + "updates, so steps would overwrite the parameter with its update; pass a Binding with separate memory "
              + "as out, or leave the key at its default");
    }
  }

  void bindGrad(long opt, int index, Memory grad) {
    if (index < 0 || index >= bindings.length) {
      throw new ShampooException.Invalid(
          "index of the parameter is " + index + ": expected "
          + (bindings.length == 0 ? "none, because the plan has no parameters"
              : bindings.length == 1 ? "0" : "0 to " + (bindings.length - 1)));
    }
    if (binding(index) == null) {
      throw new ShampooException.State(
          "parameter " + index + ": it is not bound; call bind before bindGrad");
    }
    bind(opt, index, List.of(binding(index).withGrad(grad)));
  }

  void bindScalar(long opt, int group, String key, DType dtype, Memory value) {
    if (value != null) {
      value.check("scalar " + key, dtype, 1, device, false);
    }
    Raw.shampoo_optimizer_bind_scalar(opt, group, key, value != null ? dtype.code : 0, Memory.addressOf(value));
    scalars.put(group + "/" + key, value);
  }

  void bindState(long opt, Memory in, Memory out) {
    if (in != null) {
      checkState("argument in of bindState", in, false);
    }
    if (out != null) {
      checkState("argument out of bindState", out, true);
    }
    Raw.shampoo_optimizer_bind_state(opt, Memory.addressOf(in), Memory.addressOf(out));
    stateIn = in;
    stateOut = out;
  }

  private void checkState(String what, Memory arena, boolean written) {
    arena.checkBytes(what, stateBytes, device, written);
  }
}
