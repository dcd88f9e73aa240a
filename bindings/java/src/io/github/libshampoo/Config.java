// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.Objects;

/**
 * Hyper-parameters by name. {@link Shampoo#keys} describes the type, default, range and meaning of each key. Values are
 * checked when they are set.
 */
public final class Config implements AutoCloseable {
  final Handle handle;

  /** Creates a config with the defaults of all keys. */
  public Config() {
    this(create());
  }

  private Config(long address) {
    handle = new Handle(this, "config", address, Raw::shampoo_config_destroy);
  }

  private static long create() {
    long[] out = new long[1];
    Raw.shampoo_config_create(out);
    return out[0];
  }

  /**
   * Returns a copy, for example to set other values of some keys for a parameter group.
   *
   * @return a config that is independent of this one.
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
   * @throws ShampooException.Invalid if there is no such key (the message suggests a similar one), the key has another
   *     type, or the value is out of range. The key keeps its old value.
   */
  public Config set(String key, double value) {
    handle.change(this, config -> Raw.shampoo_config_set_f64(config, key, value));
    return this;
  }

  /**
   * Sets a key of type "i64", "f64" or "bool" to an integer.
   *
   * @param key name of the key.
   * @param value within the range of the key; for a key of type "bool", 0 or 1.
   * @return this config.
   * @throws ShampooException.Invalid as in {@link #set(String, double)}.
   */
  public Config set(String key, long value) {
    handle.change(this, config -> Raw.shampoo_config_set_i64(config, key, value));
    return this;
  }

  /**
   * Sets a key of type "bool".
   *
   * @param key name of the key.
   * @param value the new value.
   * @return this config.
   * @throws ShampooException.Invalid as in {@link #set(String, double)}.
   */
  public Config set(String key, boolean value) {
    return set(key, Boolean.toString(value));
  }

  /**
   * Sets a key of any type from a string, such as a choice or a command-line argument.
   *
   * @param key name of the key.
   * @param value string as in docs/keys.md: a number with "." as the decimal separator, "true" or "false", the name of
   *     a choice, or a list of integers that are separated by commas.
   * @return this config.
   * @throws ShampooException.Invalid as in {@link #set(String, double)}, or if the string does not have the type of the
   *     key.
   */
  public Config set(String key, String value) {
    handle.change(this, config -> Raw.shampoo_config_set_str(config, key, value));
    return this;
  }

  /**
   * Sets keys from pairs such as "lr=0.1 grafting=adam", separated by blanks or line ends. "#" begins a comment, which
   * extends to the end of the line.
   *
   * @param options the pairs.
   * @return this config.
   * @throws ShampooException.Invalid as in {@link #set(String, String)}, or if a key has no value. No key is changed.
   */
  public Config parse(String options) {
    handle.change(this, config -> Raw.shampoo_config_parse(config, options));
    return this;
  }

  /**
   * Returns the value of a key as a string. {@link #set(String, String)} accepts the string and restores the same
   * value.
   *
   * @param key name of the key.
   * @return the value.
   * @throws ShampooException.Invalid if there is no such key.
   */
  public String get(String key) {
    Objects.requireNonNull(key, "key");
    String value = handle.read(this, config -> Raw.shampoo_config_get(config, key));
    if (value == null) {
      throw new ShampooException.Invalid("there is no key \"" + key + "\"; Shampoo.keys() returns all keys");
    }
    return value;
  }

  /** Releases the config. Plans that were created from it are not affected. A second call has no effect. */
  @Override
  public void close() {
    handle.closeUnused();
  }
}
