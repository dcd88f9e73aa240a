// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/**
 * Describes how an inverse root was computed.
 *
 * @param method 0 scalar, 1 diagonal, 2 eigendecomposition, 3 newton, 4 higher_order, 5 cans.
 * @param iterations number of iterations; 0 for methods that are not iterative.
 * @param converged 1 if the iteration reached root_tolerance, and always for methods 0, 1, 2 and 5. 0 if the iteration
 *     stopped at root_max_iterations: check residual. -1 if the iteration stopped before it reached either, because the
 *     error no longer decreased.
 * @param retried number of further attempts by the recovery ladder; 0 if the first attempt succeeded.
 * @param residual largest element of |(a + e I) x^p - I|, computed in float64, with the matrix a, the number e and the
 *     root x of {@link Shampoo#inverseRoot}. The exponent p is rootNum / (rootDen * exponent_multiplier).
 *     With root_rank_handling=pseudo_inverse, a projector replaces I: see shampoo_root_info in the C header.
 */
public record RootInfo(int method, int iterations, int converged, int retried, double residual) {}
