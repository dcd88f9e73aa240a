// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Where memory is, and where steps are computed. */
public enum DeviceType {
  /** Memory and processors of the host. */
  CPU(RawConstants.SHAMPOO_CPU),
  /** An NVIDIA GPU. Its memory is known by addresses ({@link Memory#of(long, long)}). */
  CUDA(RawConstants.SHAMPOO_CUDA);

  final int code;

  DeviceType(int code) {
    this.code = code;
  }
}
