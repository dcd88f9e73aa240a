// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Texts as bytes of UTF-8, which JNI's own functions do not give. */
final class Text {
  private Text() {}

  static byte[] toBytes(String text) {
    if (text == null) {
      return null;
    }
    int zero = text.indexOf('\0');
    if (zero >= 0) {
      throw new ShampooException.Invalid(
          "\"" + text.replace('\0', '?') + "\": character " + zero + " is U+0000, at which a text of C ends: leave it out");
    }
    try {
      ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
      byte[] bytes = new byte[encoded.remaining()];
      encoded.get(bytes);
      return bytes;
    } catch (CharacterCodingException half) {
      throw new ShampooException.Invalid("\"" + text + "\": half of a surrogate pair, which no UTF-8 can hold");
    }
  }

  static String fromBytes(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }
}
