// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Tests of ranks on CUDA devices, with the fake CUDA. The communicators are written in Java and exchange host memory.
 * This class runs in its own process, because a process can load only one file as the backend, and ShampooTest tries to
 * load others.
 */
class CudaTest {
  private static final int STEPS = 6;

  @BeforeAll
  static void loadBackend() {
    String path = System.getProperty("shampoo.cuda");
    Shampoo.loadBackend(path);
    assertTrue(Foreign.openCuda(path));
  }

  /** Trains on the device. Returns the parameters, or only the shards of this rank if shards is above 1. */
  private static List<float[]> train(PlanOptions planOptions, OptimizerOptions options, int rank, int shards) {
    List<Long> values = new ArrayList<>();
    List<float[]> results = new ArrayList<>();
    try (Config config = Model.config().set("shard_mode", "gather").set("precondition_frequency", 2);
        Plan plan = new Plan(config, planOptions.device(DeviceType.CUDA))) {
      for (int p = 0; p < Model.SHAPES.length; ++p) {
        plan.addParam(Model.shard(new Param("p" + p, Model.SHAPES[p]), p, rank, shards));
        values.add(Foreign.putOnDevice(Model.cut(Model.first(p), p, rank, shards)));
      }
      try (Optimizer optimizer = new Optimizer(plan.finish(), options)) {
        for (int step = 0; step < STEPS; ++step) {
          for (int p = 0; p < Model.SHAPES.length; ++p) {
            float[] gradient = Model.cut(Model.gradient(p, step), p, rank, shards);
            long bytes = 4L * gradient.length;
            Memory value = Memory.of(values.get(p), bytes);
            Memory grad = Memory.of(Foreign.putOnDevice(gradient), bytes);
            optimizer.bind(p, List.of(new Binding(value, grad, value, null)));
          }
          optimizer.step(0);
        }
        optimizer.status(true);
        assertEquals(STEPS, optimizer.stat("steps"));
      }
    }
    for (int p = 0; p < Model.SHAPES.length; ++p) {
      float[] result = Model.cut(Model.first(p), p, rank, shards);
      assertTrue(Foreign.getFromDevice(values.get(p), result));
      results.add(result);
    }
    return results;
  }

  private static List<float[]> trainAlone() {
    return train(new PlanOptions(), new OptimizerOptions(), 0, 1);
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 3})
  void replicasOnDevicesExchangeThroughHostMemory(int world) throws Exception {
    Ranks ranks = new Ranks(world);
    List<List<float[]>> found =
        Ranks.inThreads(
            world,
            rank -> {
              OptimizerOptions options = new OptimizerOptions().replicas(ranks.new Rank(rank));
              return train(new PlanOptions().replica(rank, world), options, 0, 1);
            });
    List<float[]> alone = trainAlone();
    for (int p = 0; p < Model.SHAPES.length; ++p) {
      assertArrayEquals(alone.get(p), found.get(0).get(p), 1e-5f); // on CUDA, the last bits can depend on the plan
      for (List<float[]> values : found) {
        assertArrayEquals(found.get(0).get(p), values.get(p));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void gatheredShardsOnDevicesExchangeThroughHostMemory(boolean allToAll) throws Exception {
    Ranks ranks = new Ranks(2);
    List<List<float[]>> found =
        Ranks.inThreads(
            2,
            rank -> {
              Ranks.Rank comm = allToAll ? ranks.new Exchanging(rank) : ranks.new Rank(rank);
              List<float[]> values =
                  train(new PlanOptions().shard(rank, 2), new OptimizerOptions().shards(comm), rank, 2);
              assertTrue(!allToAll || ((Ranks.Exchanging) comm).exchanges > 0);
              return values;
            });
    List<float[]> alone = trainAlone();
    for (int p = 0; p < Model.SHAPES.length; ++p) {
      for (int rank = 0; rank < 2; ++rank) {
        assertArrayEquals(Model.cut(alone.get(p), p, rank, 2), found.get(rank).get(p));
      }
    }
  }
}
