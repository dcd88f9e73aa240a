// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/**
 * How an inverse root was computed.
 *
 * @param method 0 scalar, 1 diagonal, 2 eigendecomposition, 3 newton, 4 higher_order.
 * @param iterations number of iterations; 0 for methods that are not iterative.
 * @param converged 1 if root_tolerance was reached, 0 if root_max_iterations was reached, -1 if the error stopped
 *     decreasing.
 * @param retried number of further attempts after the first one failed.
 * @param residual largest element of |A x^p - I|, in float64.
 */
public record RootInfo(int method, int iterations, int converged, int retried, double residual) {}
