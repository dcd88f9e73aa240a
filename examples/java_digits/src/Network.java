// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

import java.nio.DoubleBuffer;
import java.util.Arrays;
import io.github.libshampoo.Shampoo;

/**
 * A small network, 64-128-64-10 with tanh between the layers. Computes the mean cross entropy and its gradient.
 *
 * <p>One direct buffer contains all parameters, and another contains all gradients, in the order W1 b1 W2 b2 W3 b3.
 * Matrices are row-major, with one row per output. Computations use arrays with the same contents, because Java
 * compiles faster loops for arrays than for buffers.
 */
final class Network {
  static final int INPUTS = 64;
  static final int CLASSES = 10;
  private static final int[] SIZES = {INPUTS, 128, 64, CLASSES};
  private static final int LAYERS = SIZES.length - 1;

  /** Names and shapes of the parameters, in the order of the buffers. */
  static final String[] NAMES = {"W1", "b1", "W2", "b2", "W3", "b3"};

  static final long[][] SHAPES = {{128, 64}, {128}, {64, 128}, {64}, {10, 64}, {10}};

  static final int VALUES = offset(NAMES.length);

  final DoubleBuffer params = Shampoo.doubles(VALUES);
  final DoubleBuffer grads = Shampoo.doubles(VALUES);
  private final int rows;
  private final double[] p = new double[VALUES];
  private final double[] g = new double[VALUES];

  /** outputs[k] has the outputs of layer k, kept for the backward pass. outputs[0] has the images. */
  private final double[][] outputs = new double[LAYERS + 1][];

  /** d[k] is the gradient of the loss with respect to the outputs of layer k before tanh. */
  private final double[][] d = new double[LAYERS + 1][];

  /** Number of correctly classified images, which forward() increases and evaluate() resets. */
  private int correct;

  /** Result of an evaluation. */
  record Result(double loss, int correct) {}

  Network(int rows) {
    this.rows = rows;
    for (int k = 0; k <= LAYERS; ++k) {
      outputs[k] = new double[rows * SIZES[k]];
      d[k] = new double[rows * SIZES[k]];
    }
  }

  static int size(int tensor) {
    return (int) Arrays.stream(SHAPES[tensor]).reduce(1, (a, b) -> a * b);
  }

  static int offset(int tensor) {
    int offset = 0;
    for (int t = 0; t < tensor; ++t) {
      offset += size(t);
    }
    return offset;
  }

  /**
   * Draws the weights of each layer uniformly between -bound and bound, where bound is sqrt(6 / (inputs + outputs))
   * (Glorot and Bengio, 2010). Biases are 0.
   */
  void init(Random random) {
    for (int t = 0, i = 0; t < NAMES.length; ++t) {
      double bound = SHAPES[t].length == 2 ? Math.sqrt(6.0 / (SHAPES[t][0] + SHAPES[t][1])) : 0;
      for (int end = i + size(t); i < end; ++i) {
        params.put(i, bound * (2 * random.uniform() - 1));
      }
    }
  }

  /** Returns the sum of a[a0 + i] * b[b0 + i] for i < n. Adds eight partial sums in the same order as c_mlp. */
  private static double dot(int n, double[] a, int a0, double[] b, int b0) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    for (int i = 0; i < n; i += 8) { // the number of inputs of each layer is a multiple of 8
      s0 += a[a0 + i] * b[b0 + i];
      s1 += a[a0 + i + 1] * b[b0 + i + 1];
      s2 += a[a0 + i + 2] * b[b0 + i + 2];
      s3 += a[a0 + i + 3] * b[b0 + i + 3];
      s4 += a[a0 + i + 4] * b[b0 + i + 4];
      s5 += a[a0 + i + 5] * b[b0 + i + 5];
      s6 += a[a0 + i + 6] * b[b0 + i + 6];
      s7 += a[a0 + i + 7] * b[b0 + i + 7];
    }
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7));
  }

  /** Computes the outputs of layer k + 1 for n images: tanh(outputs[k] W^T + b); in the last layer, without tanh. */
  private void layerForward(int n, int k) {
    int from = SIZES[k];
    int to = SIZES[k + 1];
    int w = offset(2 * k);
    int b = offset(2 * k + 1);
    for (int r = 0; r < n; ++r) {
      for (int o = 0; o < to; ++o) {
        double y = p[b + o] + dot(from, outputs[k], r * from, p, w + o * from);
        outputs[k + 1][r * to + o] = k + 1 < LAYERS ? Math.tanh(y) : y;
      }
    }
  }

  /**
   * Computes, for n images, the gradients with respect to W and b of layer k + 1 from d[k + 1]. If k is not 0, also
   * computes d[k].
   */
  private void layerBackward(int n, int k) {
    int from = SIZES[k];
    int to = SIZES[k + 1];
    int w = offset(2 * k);
    int b = offset(2 * k + 1);
    double[] x = outputs[k];
    Arrays.fill(g, w, b + to, 0);
    Arrays.fill(d[k], 0);
    for (int r = 0; r < n; ++r) {
      for (int o = 0; o < to; ++o) {
        double dy = d[k + 1][r * to + o];
        g[b + o] += dy;
        for (int i = 0; i < from; ++i) {
          g[w + o * from + i] += dy * x[r * from + i];
        }
        for (int i = 0; k > 0 && i < from; ++i) {
          d[k][r * from + i] += dy * p[w + o * from + i];
        }
      }
    }
    for (int i = 0; k > 0 && i < n * from; ++i) {
      d[k][i] *= 1 - x[i] * x[i]; // tanh' = 1 - tanh^2
    }
  }

  /** Replaces the scores of an image, from scores[first] on, by probabilities, and returns the cross entropy. */
  private static double softmax(double[] scores, int first, int label) {
    double largest = scores[first]; // subtracted from all scores, so that no exponential overflows
    double sum = 0;
    for (int c = 1; c < CLASSES; ++c) {
      largest = Math.max(largest, scores[first + c]);
    }
    double lossScore = scores[first + label] - largest;
    for (int c = 0; c < CLASSES; ++c) {
      sum += scores[first + c] = Math.exp(scores[first + c] - largest);
    }
    for (int c = 0; c < CLASSES; ++c) {
      scores[first + c] /= sum;
    }
    return Math.log(sum) - lossScore;
  }

  /** Runs the network on the n images in outputs[0], and returns the sum of their cross entropies. */
  private double forward(int n, int[] labels, int firstLabel) {
    for (int k = 0; k < LAYERS; ++k) {
      layerForward(n, k);
    }
    double[] scores = outputs[LAYERS];
    double loss = 0;
    for (int r = 0; r < n; ++r) {
      int best = 0;
      for (int c = 1; c < CLASSES; ++c) {
        best = scores[r * CLASSES + c] > scores[r * CLASSES + best] ? c : best;
      }
      correct += best == labels[firstLabel + r] ? 1 : 0;
      loss += softmax(scores, r * CLASSES, labels[firstLabel + r]);
    }
    return loss;
  }

  /** Returns the mean cross entropy of a batch of images, x [count][64], and writes its gradient to grads. */
  double gradient(int count, double[] x, int[] labels) {
    params.get(0, p);
    System.arraycopy(x, 0, outputs[0], 0, count * INPUTS);
    double loss = forward(count, labels, 0);
    // If q is the probability of a class, the gradient with respect to its score is q / count, or (q - 1) / count for
    // the class of the label.
    for (int i = 0; i < count * CLASSES; ++i) {
      d[LAYERS][i] = outputs[LAYERS][i] / count;
    }
    for (int r = 0; r < count; ++r) {
      d[LAYERS][r * CLASSES + labels[r]] -= 1.0 / count;
    }
    for (int k = LAYERS - 1; k >= 0; --k) {
      layerBackward(count, k);
    }
    grads.put(0, g);
    return loss / count;
  }

  /**
   * Returns the mean cross entropy of the images [first, first + count), and the number of these images that are
   * classified correctly.
   */
  Result evaluate(Digits digits, int first, int count) {
    params.get(0, p);
    correct = 0;
    double loss = 0;
    for (int done = 0; done < count; done += rows) {
      int n = Math.min(rows, count - done);
      System.arraycopy(digits.images, (first + done) * INPUTS, outputs[0], 0, n * INPUTS);
      loss += forward(n, digits.labels, first + done);
    }
    return new Result(loss / count, correct);
  }
}
