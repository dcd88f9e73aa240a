// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

import java.util.List;
import io.github.libshampoo.Shampoo;
import io.github.libshampoo.ShampooException;

/**
 * Trains the network on handwritten digits with Shampoo and with AdamW, side by side from the same weights and on the
 * same batches, so that only the optimizer differs.
 */
final class Train {
  private Train() {}

  public static void main(String[] args) {
    try {
      Options options = Options.parse(args);
      if (options != null) {
        train(options);
      }
    } catch (Failure | ShampooException error) {
      System.err.println("java_digits: " + error.getMessage());
      System.exit(1);
    }
  }

  private static void evaluate(Network net, Digits digits, Curve curve, int epoch) {
    curve.loss[epoch] = net.evaluate(digits, 0, digits.trainCount).loss();
    curve.accuracy[epoch] = (double) net.evaluate(digits, digits.trainCount, digits.testCount).correct() / digits.testCount;
  }

  private static void train(Options options) {
    Digits digits = new Digits(options.data);
    if (options.batch > digits.trainCount) {
      throw new Failure("--batch " + options.batch + ": there are " + digits.trainCount + " images");
    }
    Random random = new Random(options.seed);
    List<Network> nets = List.of(new Network(options.batch), new Network(options.batch));
    List<Curve> curves = List.of(new Curve("Shampoo", options.epochs), new Curve("AdamW", options.epochs));
    nets.get(0).init(random);
    nets.get(1).params.put(0, nets.get(0).params, 0, Network.VALUES);
    AdamW adamw = new AdamW(Network.VALUES, options.adamwLr, options.weightDecay);
    int[] rows = new int[digits.trainCount];
    for (int i = 0; i < rows.length; ++i) {
      rows[i] = i;
    }
    int stepsPerEpoch = digits.trainCount / options.batch; // an incomplete last batch is left out
    int steps = options.epochs * stepsPerEpoch;
    StringBuilder losses = new StringBuilder("step,shampoo,adamw\n");

    try (WithShampoo shampoo = new WithShampoo(nets.get(0), options.settings)) {
      Report.print("libshampoo %s, float64%n", Shampoo.version());
      Report.print("digits      %d training images, %d test images%n", digits.trainCount, digits.testCount);
      Report.print("network     64-128-64-10, tanh, %d parameters%n", Network.VALUES);
      Report.print("steps       %d epochs of %d steps with %d images each%n", options.epochs, stepsPerEpoch, options.batch);
      Report.print("state       Shampoo %.0f KiB, AdamW %.0f KiB%n", shampoo.stateBytes / 1024.0, Network.VALUES * 16 / 1024.0);
      Report.showHead();
      for (int c = 0; c < 2; ++c) {
        evaluate(nets.get(c), digits, curves.get(c), 0);
      }
      Report.showEpoch(0, curves);

      double[] x = new double[options.batch * Network.INPUTS];
      int[] labels = new int[options.batch];
      for (int epoch = 1, step = 0; epoch <= options.epochs; ++epoch) {
        random.shuffle(rows);
        for (int s = 0; s < stepsPerEpoch; ++s, ++step) {
          Report.showProgress(step, steps);
          digits.gather(rows, s * options.batch, options.batch, x, labels);
          double share = 0.5 * (1 + Math.cos(Math.PI * step / steps));
          adamw.lr = share * options.adamwLr;
          double[] loss = new double[2];
          for (int c = 0; c < 2; ++c) {
            Network net = nets.get(c);
            long start = System.nanoTime();
            loss[c] = net.gradient(options.batch, x, labels);
            long middle = System.nanoTime();
            if (c == 0) {
              shampoo.step(share * shampoo.lr);
            } else {
              adamw.step(net.params, net.grads);
            }
            curves.get(c).gradientNanos += middle - start;
            curves.get(c).updateNanos += System.nanoTime() - middle;
          }
          losses.append((step + 1) + "," + loss[0] + "," + loss[1] + "\n");
        }
        for (int c = 0; c < 2; ++c) {
          evaluate(nets.get(c), digits, curves.get(c), epoch);
        }
        Report.showEpoch(epoch, curves);
      }
      Report.showTimes(steps, curves);
      Report.print("Shampoo computed %d inverse roots%n", shampoo.roots());
    }
    if (!options.stepLosses.isEmpty()) {
      Report.write(options.stepLosses, losses.toString());
    }
    if (!options.csv.isEmpty()) {
      Report.writeCsv(options.csv, curves);
    }
  }
}
