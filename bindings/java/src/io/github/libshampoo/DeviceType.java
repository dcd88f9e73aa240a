// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Types of devices. A step runs on a device, and uses the memory of this device. */
public enum DeviceType {
  /** The processors and the memory of the host. */
  CPU(RawConstants.SHAMPOO_CPU),
  /** An NVIDIA GPU. Pass its memory as addresses, with {@link Memory#of(long, long)}. */
  CUDA(RawConstants.SHAMPOO_CUDA);

  final int code;

  DeviceType(int code) {
    this.code = code;
  }
}
