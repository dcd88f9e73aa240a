// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/**
 * A backend of the library.
 *
 * @param name "cpu" or "cuda".
 * @param usable whether optimizers can be made on it here.
 * @param unavailableReason why they cannot, as a sentence; "" where they can.
 * @param deviceCount devices that it found; the CPU counts as one.
 */
public record Backend(String name, boolean usable, String unavailableReason, int deviceCount) {}
