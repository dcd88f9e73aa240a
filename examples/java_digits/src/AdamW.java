// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

import java.nio.DoubleBuffer;

/** AdamW, the baseline: decoupled weight decay, averages 0.9 and 0.999, epsilon 1e-8. */
final class AdamW {
  private static final double BETA1 = 0.9;
  private static final double BETA2 = 0.999;
  private static final double EPSILON = 1e-8;

  double lr;
  private final double weightDecay;
  private final double[] first;
  private final double[] second;
  private int step;

  AdamW(int count, double lr, double weightDecay) {
    this.lr = lr;
    this.weightDecay = weightDecay;
    first = new double[count];
    second = new double[count];
  }

  void step(DoubleBuffer params, DoubleBuffer grads) {
    ++step;
    // Bias correction: both averages start at 0.
    double stepSize = lr / (1 - Math.pow(BETA1, step));
    double rootScale = 1 / Math.sqrt(1 - Math.pow(BETA2, step));
    double keep = 1 - lr * weightDecay;
    for (int i = 0; i < first.length; ++i) {
      double g = grads.get(i);
      first[i] = BETA1 * first[i] + (1 - BETA1) * g;
      second[i] = BETA2 * second[i] + (1 - BETA2) * g * g;
      params.put(i, keep * params.get(i) - stepSize * first[i] / (Math.sqrt(second[i]) * rootScale + EPSILON));
    }
  }
}
