// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/**
 * How an inverse root was computed.
 *
 * @param method 0 scalar, 1 diagonal, 2 eigendecomposition, 3 newton, 4 higher_order.
 * @param iterations of an iterative method; 0 with the others.
 * @param converged 1: to root_tolerance; 0: root_max_iterations was reached; -1: stopped as it got no better.
 * @param retried further attempts after the first failed.
 * @param residual max |A x^p - I|, elementwise, in float64.
 */
public record RootInfo(int method, int iterations, int converged, int retried, double residual) {}
