// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/**
 * A backend of the library.
 *
 * @param name "cpu" or "cuda".
 * @param usable whether optimizers can use the backend in this process.
 * @param unavailableReason a sentence that explains why the backend cannot be used, or "" if usable is true.
 * @param deviceCount number of devices that the backend has found; the CPU counts as one device.
 */
public record Backend(String name, boolean usable, String unavailableReason, int deviceCount) {}
