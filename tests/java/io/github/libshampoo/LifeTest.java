// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Tests of closing, garbage collection and threads. */
class LifeTest {
  private static Optimizer make(PlanOptions planOptions, OptimizerOptions options) {
    try (Config config = Model.config();
        Plan plan = new Plan(config, planOptions)) {
      plan.addParam("w", 6, 4);
      return new Optimizer(plan.finish(), options);
    }
  }

  private static Optimizer make(Communicator comm) {
    return make(new PlanOptions().replica(comm.rank(), comm.world()), new OptimizerOptions().replicas(comm));
  }

  private static Optimizer make() {
    return make(new PlanOptions(), new OptimizerOptions());
  }

  @Test
  void closedObjectsAreRejected() {
    Config config = new Config();
    Plan plan = new Plan(config);
    plan.addParam("w", 24);
    Optimizer optimizer = new Optimizer(plan.finish());
    optimizer.bind("w", Buffers.filled(24, 1), Buffers.filled(24, 1));
    StateEntry entry = optimizer.stateEntries().get(0);
    for (int time = 0; time < 2; ++time) {
      optimizer.close();
      plan.close();
      config.close();
    }
    List<Executable> calls =
        List.of(
            () -> config.set("lr", 1.0), () -> config.get("lr"), config::copy, () -> new Plan(config), plan::blocks,
            plan::finish, plan::params, () -> plan.bytes("state"), () -> plan.addParam("x", 1), () -> plan.addGroup(config),
            () -> new Optimizer(plan), optimizer::step, () -> optimizer.status(true), () -> optimizer.set(0, "lr", 1),
            () -> optimizer.get(0, "lr"), () -> optimizer.stat("steps"), optimizer::error, optimizer::stateEntries,
            () -> optimizer.readState(entry), () -> optimizer.writeState(entry, Buffers.bytes(1 << 16).limit(
                (int) (entry.elements() * entry.dtype().bytes()))), () -> optimizer.bind("w", Buffers.filled(24, 1), null),
            () -> optimizer.bindGrad(0, null), () -> optimizer.bindScalar(0, "lr", DType.F32, null),
            () -> optimizer.bindState(null, null), () -> optimizer.save(Path.of("nowhere")),
            () -> optimizer.load(Path.of("nowhere")));
    for (Executable call : calls) {
      String text = assertThrows(ShampooException.State.class, call).getMessage();
      assertTrue(text.endsWith("is closed"), text);
    }
  }

  /** A communicator. If {@code holding} is true, the next exchange waits until the test counts down {@code go}. */
  private static class Holds extends Mirror {
    final CountDownLatch inside = new CountDownLatch(1);
    final CountDownLatch go = new CountDownLatch(1);
    volatile boolean holding;
    volatile boolean left;

    @Override
    public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
      super.allGather(send, recv);
      if (holding) {
        holding = false;
        inside.countDown();
        assertTrue(go.await(Ranks.PATIENCE, TimeUnit.SECONDS));
        left = true;
      }
    }
  }

  @Test
  void closeWaitsForTheStepOfAnotherThread() throws Exception {
    Holds comm = new Holds();
    Optimizer optimizer = make(comm);
    FloatBuffer w = Buffers.filled(24, 1);
    optimizer.bind("w", w, Buffers.filled(24, 1));
    comm.holding = true;
    Ranks.inThreads(
        3,
        number -> {
          if (number == 0) {
            optimizer.step();
            return null;
          }
          assertTrue(comm.inside.await(Ranks.PATIENCE, TimeUnit.SECONDS));
          if (number == 1) {
            optimizer.close();
            assertTrue(comm.left, "close returned during the step");
          } else {
            String text = assertThrows(ShampooException.State.class, optimizer::step).getMessage();
            assertTrue(text.contains("in use"), text);
            // Give thread 1 time to call close. If thread 1 is too slow, the test passes without checking close.
            Thread.sleep(50);
            comm.go.countDown();
          }
          return null;
        });
    assertTrue(w.get(0) < 1);
    assertThrows(ShampooException.State.class, optimizer::step);
  }

  @Test
  void aCallbackCannotCloseOrStepItsOptimizer() {
    Optimizer[] optimizer = new Optimizer[1];
    Throwable[] thrown = new Throwable[2];
    Communicator comm =
        new Mirror() {
          @Override
          public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
            super.allGather(send, recv);
            if (optimizer[0] != null) {
              thrown[0] = assertThrows(ShampooException.State.class, optimizer[0]::close);
              thrown[1] = assertThrows(ShampooException.State.class, optimizer[0]::step);
            }
          }
        };
    try (Optimizer made = make(comm)) {
      optimizer[0] = made;
      made.bind("w", Buffers.filled(24, 1), Buffers.filled(24, 1));
      made.step();
      assertTrue(thrown[0].getMessage().contains("cannot be closed"));
      assertTrue(thrown[1].getMessage().contains("in use"));
    }
  }

  @Test
  void aPlanIsNotClosedWhileAnOptimizerIsCreatedFromIt() {
    try (Config config = Model.config();
        Plan plan = new Plan(config, new PlanOptions().replica(0, 2))) {
      plan.addParam("w", 4);
      plan.finish();
      Throwable[] thrown = new Throwable[1];
      Communicator comm =
          new Mirror() {
            @Override
            public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
              thrown[0] = assertThrows(ShampooException.State.class, plan::close);
              super.allGather(send, recv);
            }
          };
      new Optimizer(plan, new OptimizerOptions().replicas(comm)).close();
      assertNotNull(thrown[0]);
    }
  }

  /**
   * Each step waits in an exchange for the step of the other optimizer. If only one step could run at a time, the wait
   * would time out.
   */
  @Test
  void stepsOfTwoOptimizersOverlap() throws Exception {
    CyclicBarrier inside = new CyclicBarrier(2);
    List<float[]> results =
        Ranks.inThreads(
            2,
            number -> {
              AtomicBoolean stepping = new AtomicBoolean();
              Communicator comm =
                  new Mirror() {
                    @Override
                    public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
                      super.allGather(send, recv);
                      if (stepping.get()) {
                        inside.await(Ranks.PATIENCE, TimeUnit.SECONDS);
                      }
                    }
                  };
              FloatBuffer w = Buffers.filled(24, 1);
              try (Optimizer optimizer = make(comm)) {
                optimizer.bind("w", w, Buffers.filled(24, 1));
                stepping.set(true);
                for (int step = 0; step < 20; ++step) {
                  optimizer.step();
                }
              }
              return Buffers.copy(w);
            });
    assertArrayEquals(results.get(0), results.get(1));
  }

  private static boolean isCollected(WeakReference<?> reference) throws InterruptedException {
    for (int time = 0; time < 100 && reference.get() != null; ++time) {
      System.gc();
      Thread.sleep(10);
    }
    return reference.get() == null;
  }

  @Test
  void boundMemoryIsKeptAliveAndReplacedMemoryIsReleased() throws Exception {
    try (Optimizer optimizer = make()) {
      FloatBuffer w = Buffers.filled(24, 1);
      FloatBuffer grad = Buffers.filled(24, 1);
      WeakReference<FloatBuffer> kept = new WeakReference<>(grad);
      FloatBuffer rate = Buffers.floats(0.5f);
      WeakReference<FloatBuffer> scalar = new WeakReference<>(rate);
      optimizer.bind("w", w, grad);
      optimizer.bindScalar(0, "lr", DType.F32, Memory.of(rate));
      grad = null;
      rate = null;
      for (int time = 0; time < 5; ++time) {
        System.gc();
      }
      assertNotNull(kept.get());
      assertNotNull(scalar.get());
      optimizer.bindGrad(0, null);
      optimizer.bindScalar(0, "lr", DType.F32, null);
      assertTrue(isCollected(kept));
      assertTrue(isCollected(scalar));
    }
  }

  @Test
  void objectsThatAreNotClosedAreCollected() throws Exception {
    Ranks.Rank comm = new Ranks(1).new Rank(0);
    Optimizer optimizer = make(comm);
    optimizer.bind("w", Buffers.filled(24, 1), Buffers.filled(24, 1));
    optimizer.step();
    WeakReference<Optimizer> gone = new WeakReference<>(optimizer);
    assertEquals(0, comm.released);
    optimizer = null;
    assertTrue(isCollected(gone));
    for (int time = 0; time < 500 && comm.released == 0; ++time) {
      Thread.sleep(10);
    }
    assertEquals(1, comm.released);
  }

  /** Returns an array with a new optimizer. Only this array refers to the optimizer. */
  private static Optimizer[] onlyOne(Communicator comm) {
    Optimizer[] only = {make(comm)};
    only[0].bind("w", Buffers.filled(24, 1), Buffers.filled(24, 1));
    return only;
  }

  @Test
  void anOptimizerIsKeptAliveDuringItsLastCall() {
    // Let the JVM compile the methods of a step: unlike the interpreter, compiled code does not keep arguments alive.
    try (Optimizer other = make(new Mirror())) {
      other.bind("w", Buffers.filled(24, 1), Buffers.filled(24, 1));
      for (int step = 0; step < 10_000; ++step) {
        other.step();
      }
    }
    List<WeakReference<Optimizer>> stepping = new ArrayList<>();
    int[] seen = new int[1];
    Optimizer[] only =
        onlyOne(
            new Mirror() {
              @Override
              public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
                super.allGather(send, recv);
                for (WeakReference<Optimizer> optimizer : stepping) {
                  for (int time = 0; time < 5; ++time) {
                    System.gc();
                  }
                  assertNotNull(optimizer.get());
                  ++seen[0];
                }
              }
            });
    stepping.add(new WeakReference<>(only[0]));
    takeFrom(only).step();
    assertTrue(seen[0] > 0);
  }

  private static Optimizer takeFrom(Optimizer[] only) {
    Optimizer taken = only[0];
    only[0] = null;
    return taken;
  }

  @Test
  void aCommunicatorIsCollectedAfterItsOptimizerWasClosed() throws Exception {
    Ranks.Rank comm = new Ranks(1).new Rank(0);
    WeakReference<Ranks.Rank> gone = new WeakReference<>(comm);
    make(comm).close();
    comm = null;
    assertTrue(isCollected(gone));
  }

  private static final int SIZE = 1 << 14;

  /**
   * Trains, and returns the parameter. Only the optimizer refers to the buffers of the parameter and of the gradient.
   * No code uses the optimizer after its last step.
   */
  private static float[] trainWithoutKeeping() {
    try (Config config = Model.config().set("use_merge_dims", false);
        Plan plan = new Plan(config)) {
      plan.addParam("w", 128, 128);
      Optimizer optimizer = new Optimizer(plan.finish());
      optimizer.bind(0, Buffers.filled(SIZE, 1), Buffers.filled(SIZE, 0.5f));
      for (int step = 0; step < 12; ++step) {
        optimizer.step();
      }
      FloatBuffer out = Buffers.filled(SIZE, 0);
      Binding last = ((Bound) optimizer.handle.held).binding(0);
      optimizer.bind(0, List.of(new Binding(last.param(), last.grad(), Memory.of(out), null)));
      optimizer.step();
      return Buffers.copy(out);
    }
  }

  @Test
  void garbageCollectionDuringStepsChangesNothing() throws Exception {
    float[] expected = trainWithoutKeeping();
    AtomicBoolean done = new AtomicBoolean();
    Thread collector =
        new Thread(
            () -> {
              while (!done.get()) {
                System.gc();
                // Fill new buffers. If the collector has freed a bound buffer too early, the new buffers overwrite it.
                for (int i = 0; i < 20; ++i) {
                  Buffers.filled(SIZE, Float.NaN);
                }
              }
            });
    collector.start();
    try {
      for (int time = 0; time < 10; ++time) {
        assertArrayEquals(expected, trainWithoutKeeping());
      }
    } finally {
      done.set(true);
      collector.join();
    }
  }

  private static long resident() throws Exception {
    return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
  }

  private static void liveOnce(FloatBuffer w, FloatBuffer grad) {
    try (Optimizer optimizer = make()) {
      optimizer.bind(0, w, grad);
      optimizer.step();
    }
  }

  @Test
  void memoryDoesNotGrowOver10000Optimizers() throws Exception {
    FloatBuffer w = Buffers.filled(24, 1);
    FloatBuffer grad = Buffers.filled(24, 1);
    for (int time = 0; time < 2_000; ++time) {
      liveOnce(w, grad);
    }
    System.gc();
    long before = resident();
    for (int time = 0; time < 10_000; ++time) {
      liveOnce(w, grad);
    }
    System.gc();
    // The arena of each optimizer has 1 KiB, so a leak of 10,000 arenas would exceed the limit of 8 MiB.
    assertTrue(resident() - before < 8 << 20, (resident() - before) + " bytes more");
  }
}
