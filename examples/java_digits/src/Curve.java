// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

/** What became of one optimizer: at the beginning and after each epoch, and how long its steps took. */
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
