// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

/**
 * Results of one optimizer: training loss and test accuracy at the start and after each epoch, and the total times
 * that gradients and updates took.
 */
final class Curve {
  final String name;
  final double[] loss;
  final double[] accuracy;
  long gradientNanos;
  long updateNanos;

  Curve(String name, int epochs) {
    this.name = name;
    loss = new double[epochs + 1];
    accuracy = new double[epochs + 1];
  }
}
