// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/**
 * One hyper-parameter, as in docs/keys.md.
 *
 * @param name name of the key.
 * @param valueType "f64", "i64", "bool", "choice", "dtype", "list" (of integers) or "text".
 * @param defaultValue the default as a string; "auto" means that the value is derived from other keys or the parameter.
 * @param range description of the allowed values.
 * @param doc description of the key.
 * @param perGroup whether parameter groups can have different values of the key.
 * @param changeable whether {@link Optimizer#set} can change the value between steps.
 * @param forReplay whether the key exists only to reproduce other implementations.
 */
public record Key(
    String name, String valueType, String defaultValue, String range, String doc, boolean perGroup, boolean changeable,
    boolean forReplay) {
  /** Returns a line with the name, default, type and range, and a line with the description. */
  @Override
  public String toString() {
    String scope = perGroup ? "" : ", of the whole optimizer";
    String change = changeable ? ", can be changed between steps" : "";
    return name + " = " + defaultValue + "    (" + valueType + ", " + range + scope + change + ")\n    " + doc;
  }
}
