// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

import java.nio.DoubleBuffer;

/** AdamW, to which Shampoo is compared. It has decoupled weight decay, beta1 0.9, beta2 0.999 and epsilon 1e-8. */
final class AdamW {
  private static final double BETA1 = 0.9;
  private static final double BETA2 = 0.999;
  private static final double EPSILON = 1e-8;

  double lr;
  private final double weightDecay;
  private final double[] firstMoment;
  private final double[] secondMoment;
  private int step;

  AdamW(int count, double lr, double weightDecay) {
    this.lr = lr;
    this.weightDecay = weightDecay;
    firstMoment = new double[count];
    secondMoment = new double[count];
  }

  void step(DoubleBuffer params, DoubleBuffer grads) {
    ++step;
    // Bias correction, because the moving averages firstMoment and secondMoment start at 0.
    double stepSize = lr / (1 - Math.pow(BETA1, step));
    double rootScale = 1 / Math.sqrt(1 - Math.pow(BETA2, step));
    double keep = 1 - lr * weightDecay;
    for (int i = 0; i < firstMoment.length; ++i) {
      double g = grads.get(i);
      firstMoment[i] = BETA1 * firstMoment[i] + (1 - BETA1) * g;
      secondMoment[i] = BETA2 * secondMoment[i] + (1 - BETA2) * g * g;
      double denominator = Math.sqrt(secondMoment[i]) * rootScale + EPSILON;
      params.put(i, keep * params.get(i) - stepSize * firstMoment[i] / denominator);
    }
  }
}
