// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/**
 * One hyper-parameter, as in docs/keys.md.
 *
 * @param name the key.
 * @param valueType "f64", "i64", "bool", "choice", "dtype" or "list" (of integers).
 * @param defaultValue the default as text; "auto": worked out from other keys or from the parameter.
 * @param range the allowed values, for people.
 * @param doc what it does.
 * @param perGroup whether each parameter group has a value of its own.
 * @param changeable whether {@link Optimizer#set} may change it between steps.
 */
public record Key(
    String name, String valueType, String defaultValue, String range, String doc, boolean perGroup, boolean changeable) {
  /** A line with name, default, type and range, and another with what it does. */
  @Override
  public String toString() {
    String scope = perGroup ? "" : ", of the whole optimizer";
    String change = changeable ? ", can be changed between steps" : "";
    return name + " = " + defaultValue + "    (" + valueType + ", " + range + scope + change + ")\n    " + doc;
  }
}
