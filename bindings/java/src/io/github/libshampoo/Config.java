// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.Objects;

/**
 * Hyper-parameters by name: a new one holds the defaults. {@link Shampoo#keys} has the table of keys, with type, default,
 * range and meaning. A value is checked when it is set.
 */
public final class Config implements AutoCloseable {
  final Handle handle;

  /** Every key has its default. */
  public Config() {
    this(created());
  }

  private Config(long address) {
    handle = new Handle(this, "config", address, Raw::shampoo_config_destroy);
  }

  private static long created() {
    long[] out = new long[1];
    Raw.shampoo_config_create(out);
    return out[0];
  }

  /**
   * Copies the values, such as for a parameter group that differs in two keys.
   *
   * @return another config, which is independent of this one.
   */
  public Config copy() {
    return handle.read(
        this,
        config -> {
          long[] out = new long[1];
          Raw.shampoo_config_clone(out, config);
          return new Config(out[0]);
        });
  }

  /**
   * Sets a key of type "f64".
   *
   * @param key name of the key.
   * @param value within the range of the key.
   * @return this config.
   * @throws ShampooException.Invalid there is no such key (the text proposes a near one), it is of another type, or the
   *     value is out of range. The value is as before.
   */
  public Config set(String key, double value) {
    handle.change(this, config -> Raw.shampoo_config_set_f64(config, key, value));
    return this;
  }

  /**
   * Sets a key of type "i64" or "f64".
   *
   * @param key name of the key.
   * @param value within the range of the key.
   * @return this config.
   * @throws ShampooException.Invalid as of {@link #set(String, double)}.
   */
  public Config set(String key, long value) {
    handle.change(this, config -> Raw.shampoo_config_set_i64(config, key, value));
    return this;
  }

  /**
   * Sets a key of type "bool".
   *
   * @param key name of the key.
   * @param value what it is to be.
   * @return this config.
   * @throws ShampooException.Invalid as of {@link #set(String, double)}.
   */
  public Config set(String key, boolean value) {
    return set(key, Boolean.toString(value));
  }

  /**
   * Sets a key of any type from text, such as a choice, or what a command line gives.
   *
   * @param key name of the key.
   * @param value as docs/keys.md spells it: numbers with a point, "true" and "false", choices by name, lists with commas.
   * @return this config.
   * @throws ShampooException.Invalid as of {@link #set(String, double)}, or the text cannot be read as the type of the key.
   */
  public Config set(String key, String value) {
    handle.change(this, config -> Raw.shampoo_config_set_str(config, key, value));
    return this;
  }

  /**
   * Value of a key as text, which {@link #set(String, String)} reads back to the same value.
   *
   * @param key name of the key.
   * @return the value.
   * @throws ShampooException.Invalid there is no such key.
   */
  public String get(String key) {
    Objects.requireNonNull(key, "key");
    String value = handle.read(this, config -> Raw.shampoo_config_get(config, key));
    if (value == null) {
      throw new ShampooException.Invalid("there is no key \"" + key + "\": Shampoo.keys() has them all");
    }
    return value;
  }

  /** Ends the config; plans that were made from it have copied its values. It can be called again. */
  @Override
  public void close() {
    handle.closeUnused();
  }
}
