// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.List;

/** A model with three small parameters. A gradient depends only on the index of the parameter and on the step. */
final class Model {
  static final long[][] SHAPES = {{12, 8}, {12}, {5, 12}};

  private Model() {}

  static Config config() {
    return new Config().set("lr", 0.1).set("grafting", "adam").set("max_preconditioner_dim", 8).set("threads", 1);
  }

  static int size(int param) {
    int size = 1;
    for (long extent : SHAPES[param]) {
      size *= (int) extent;
    }
    return size;
  }

  static float[] first(int param) {
    float[] values = new float[size(param)];
    for (int i = 0; i < values.length; ++i) {
      values[i] = (float) Math.sin(1 + 0.7 * i + param);
    }
    return values;
  }

  static float[] gradient(int param, int step) {
    float[] values = new float[size(param)];
    for (int i = 0; i < values.length; ++i) {
      values[i] = (float) Math.cos(0.3 * i * (param + 1) + step);
    }
    return values;
  }

  /**
   * Trains for four steps, and returns the parameters. If shards is above 1, each parameter is divided into that number
   * of flat shards of about equal size, and only the shards of this rank are trained and returned.
   */
  static List<float[]> train(
      PlanOptions planOptions, OptimizerOptions options, String mode, int rank, int shards) {
    List<FloatBuffer> values = new ArrayList<>();
    List<float[]> results = new ArrayList<>();
    try (Config config = config().set("shard_mode", mode);
        Plan plan = new Plan(config, planOptions)) {
      for (int p = 0; p < SHAPES.length; ++p) {
        plan.addParam(shard(new Param("p" + p, SHAPES[p]), p, rank, shards));
        values.add(Buffers.floats(cut(first(p), p, rank, shards)));
      }
      try (Optimizer optimizer = new Optimizer(plan.finish(), options)) {
        for (int step = 0; step < 4; ++step) {
          for (int p = 0; p < SHAPES.length; ++p) {
            optimizer.bind(p, values.get(p), Buffers.floats(cut(gradient(p, step), p, rank, shards)));
          }
          optimizer.step();
        }
      }
    }
    values.forEach(value -> results.add(Buffers.copy(value)));
    return results;
  }

  static List<float[]> trainAlone() {
    return train(new PlanOptions(), new OptimizerOptions(), "local", 0, 1);
  }

  /** Describes the flat shard of this rank, or the whole parameter if shards is 1. */
  static Param shard(Param whole, int param, int rank, int shards) {
    return shards > 1 ? whole.flatShard(begin(param, rank, shards), count(param, rank, shards)) : whole;
  }

  private static int begin(int param, int rank, int shards) {
    return Math.min(rank * ((size(param) + shards - 1) / shards), size(param));
  }

  private static int count(int param, int rank, int shards) {
    return begin(param, rank + 1, shards) - begin(param, rank, shards);
  }

  /** Returns only the values that are in this rank's shard of the parameter. */
  static float[] cut(float[] values, int param, int rank, int shards) {
    return java.util.Arrays.copyOfRange(values, begin(param, rank, shards), begin(param, rank + 1, shards));
  }
}
