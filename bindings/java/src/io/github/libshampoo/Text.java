// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Converts strings to and from UTF-8. JNI's own functions are not used, because they use modified UTF-8. */
final class Text {
  private Text() {}

  static byte[] toBytes(String text) {
    if (text == null) {
      return null;
    }
    int zero = text.indexOf('\0');
    if (zero >= 0) {
      throw new ShampooException.Invalid(
          "\"" + text.replace('\0', '?') + "\": character " + zero + " is U+0000, which ends a C string; remove it");
    }
    try {
      ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
      byte[] bytes = new byte[encoded.remaining()];
      encoded.get(bytes);
      return bytes;
    } catch (CharacterCodingException error) {
      throw new ShampooException.Invalid(
          "\"" + text + "\" contains half of a surrogate pair, which UTF-8 cannot encode; remove it, or add the other "
              + "half");
    }
  }

  static String fromBytes(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }
}
