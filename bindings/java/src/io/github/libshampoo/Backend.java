// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/**
 * A backend of the library.
 *
 * @param name "cpu" or "cuda".
 * @param usable whether optimizers can use it in this process.
 * @param unavailableReason a sentence that explains why it cannot be used, or "" if it can.
 * @param deviceCount number of devices found; the CPU counts as one.
 */
public record Backend(String name, boolean usable, String unavailableReason, int deviceCount) {}
