// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests of communicators: several ranks, failures, and callbacks in C. */
class CommTest {
  private static void assertSameBits(List<float[]> expected, List<float[]> found) {
    for (int p = 0; p < expected.size(); ++p) {
      assertArrayEquals(expected.get(p), found.get(p));
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 3})
  void replicasAreBitIdenticalToOneRank(int world) throws Exception {
    Ranks ranks = new Ranks(world);
    List<List<float[]>> found =
        Ranks.inThreads(
            world,
            rank -> {
              Ranks.Rank comm = ranks.new Rank(rank);
              OptimizerOptions options = new OptimizerOptions().replicas(comm);
              List<float[]> values = Model.train(new PlanOptions().replica(rank, world), options, "local", 0, 1);
              assertEquals(1, comm.released);
              return values;
            });
    for (List<float[]> values : found) {
      assertSameBits(Model.trainAlone(), values);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void gatheredShardsAreBitIdenticalToOneRank(boolean allToAll) throws Exception {
    Ranks ranks = new Ranks(2);
    List<List<float[]>> found =
        Ranks.inThreads(
            2,
            rank -> {
              Ranks.Rank comm = allToAll ? ranks.new Exchanging(rank) : ranks.new Rank(rank);
              OptimizerOptions options = new OptimizerOptions().shards(comm);
              List<float[]> values = Model.train(new PlanOptions().shard(rank, 2), options, "gather", rank, 2);
              assertTrue(!allToAll || ((Ranks.Exchanging) comm).exchanges > 0);
              return values;
            });
    List<float[]> whole = Model.trainAlone();
    for (int p = 0; p < whole.size(); ++p) {
      FloatBuffer joined = FloatBuffer.allocate(whole.get(p).length);
      joined.put(found.get(0).get(p)).put(found.get(1).get(p));
      assertArrayEquals(whole.get(p), joined.array());
    }
  }

  /**
   * {@code allGather} fails if {@code failing} is true. {@code asyncError} fails if {@code failingLater} is true.
   * {@code abort} and {@code release} always fail.
   */
  private static final class Fails extends Mirror {
    final RuntimeException failure = new RuntimeException("the network is gone");
    boolean failing;
    boolean failingLater;
    int aborted;
    int released;

    @Override
    public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
      if (failing) {
        throw failure;
      }
      super.allGather(send, recv);
    }

    @Override
    public void asyncError() {
      if (failingLater) {
        throw failure;
      }
    }

    @Override
    public void abort() {
      ++aborted;
      Shampoo.keys(); // this call must not replace the cause of the error of the step
      throw new IllegalStateException("abort fails, too");
    }

    @Override
    public void release() {
      ++released;
      throw new IllegalStateException("release fails, too");
    }
  }

  private static Optimizer alone(Communicator communicator) {
    try (Config config = Model.config();
        Plan plan = new Plan(config, new PlanOptions().replica(0, 2))) {
      plan.addParam("w", 4);
      return new Optimizer(plan.finish(), new OptimizerOptions().replicas(communicator));
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anExceptionInACommunicatorBecomesAnErrorOfTheStep(boolean later) {
    Fails comm = new Fails();
    List<Throwable> reported = new ArrayList<>();
    Thread.currentThread().setUncaughtExceptionHandler((thread, thrown) -> reported.add(thrown));
    FloatBuffer w = Buffers.filled(4, 1);
    try (Optimizer optimizer = alone(comm)) {
      optimizer.bind("w", w, Buffers.filled(4, 1));
      optimizer.step();
      float[] before = Buffers.copy(w);
      comm.failing = !later;
      comm.failingLater = later;
      ShampooException error = assertThrows(ShampooException.Collective.class, optimizer::step);
      assertSame(comm.failure, error.getCause());
      assertTrue(error.getMessage().contains("the network is gone"), error.getMessage());
      assertEquals(6, error.status());
      assertEquals(1, comm.aborted);
      comm.failing = false;
      comm.failingLater = false;
      ShampooException again = assertThrows(ShampooException.Collective.class, optimizer::step);
      assertEquals(null, again.getCause()); // the exception of the previous call is not reported again
      assertArrayEquals(before, Buffers.copy(w));
    } finally {
      Thread.currentThread().setUncaughtExceptionHandler(null);
    }
    assertEquals(1, comm.released);
    assertEquals(2, reported.size());
  }

  @Test
  void aFailureOnOneRankReachesTheOther() throws Exception {
    Ranks ranks = new Ranks(2);
    List<ShampooException> errors =
        Ranks.inThreads(
            2,
            rank -> {
              Ranks.Rank comm =
                  ranks.new Rank(rank) {
                    int calls;

                    @Override
                    public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
                      if (rank == 1 && ++calls > 3) {
                        throw new java.io.IOException("cut off");
                      }
                      super.allGather(send, recv);
                    }
                  };
              OptimizerOptions options = new OptimizerOptions().replicas(comm);
              return assertThrows(
                  ShampooException.Collective.class,
                  () -> Model.train(new PlanOptions().replica(rank, 2), options, "local", 0, 1));
            });
    assertInstanceOf(java.io.IOException.class, errors.get(1).getCause());
    assertEquals("cut off", errors.get(1).getCause().getMessage());
    assertEquals("another rank has failed", errors.get(0).getCause().getMessage());
  }

  /** A communicator that does not implement abort. Its next exchange fails if {@code failing} is true. */
  private static final class FailsOnce implements Communicator {
    private final Communicator rank;
    boolean failing;

    FailsOnce(Communicator rank) {
      this.rank = rank;
    }

    @Override
    public int rank() {
      return rank.rank();
    }

    @Override
    public int world() {
      return rank.world();
    }

    @Override
    public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
      if (failing) {
        failing = false;
        throw new java.io.IOException("cut off");
      }
      rank.allGather(send, recv);
    }
  }

  @Test
  void withoutAnAbortTheNextStepOfAFailedRankEndsTheWaitOfTheOther() throws Exception {
    Ranks ranks = new Ranks(2);
    List<ShampooException> errors =
        Ranks.inThreads(
            2,
            rank -> {
              FailsOnce comm = new FailsOnce(ranks.new Rank(rank));
              try (Config config = Model.config();
                  Plan plan = new Plan(config, new PlanOptions().replica(rank, 2))) {
                plan.addParam("w", 4);
                try (Optimizer optimizer = new Optimizer(plan.finish(), new OptimizerOptions().replicas(comm))) {
                  optimizer.bind("w", Buffers.filled(4, 1), Buffers.filled(4, 1));
                  comm.failing = rank == 1;
                  // Rank 0 waits in this step until rank 1 steps again.
                  ShampooException error = assertThrows(ShampooException.Collective.class, optimizer::step);
                  if (rank == 1) {
                    assertThrows(ShampooException.Collective.class, optimizer::step);
                  }
                  return error;
                }
              }
            });
    assertEquals("cut off", errors.get(1).getCause().getMessage());
    String message = errors.get(0).getMessage();
    assertTrue(message.contains("rank 1: a collective or a CUDA call failed before"), message);
  }

  @Test
  void buffersOfAnExchangeHaveNativeOrderAndTheSendBufferIsReadOnly() {
    List<ByteBuffer> seen = new ArrayList<>();
    Communicator looks =
        new Mirror() {
          @Override
          public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
            seen.add(send);
            seen.add(recv);
            super.allGather(send, recv);
          }
        };
    alone(looks).close();
    assertTrue(seen.size() >= 2);
    assertTrue(seen.get(0).isReadOnly());
    assertTrue(!seen.get(1).isReadOnly());
    for (ByteBuffer buffer : seen) {
      assertSame(java.nio.ByteOrder.nativeOrder(), buffer.order());
    }
  }

  /** The test java.checked runs this with -Xcheck:jni, so that the JVM reports callbacks that keep local references. */
  @Test
  void aStepMayExchangeManyTimes() throws Exception {
    int[] exchanges = new int[1];
    Communicator counts =
        new Mirror() {
          @Override
          public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
            ++exchanges[0];
            super.allGather(send, recv);
          }
        };
    try (Config config = Model.config().set("comm_bucket_bytes", 1024);
        Plan plan = new Plan(config, new PlanOptions().replica(0, 2))) {
      for (int p = 0; p < 64; ++p) {
        plan.addParam("p" + p, 256);
      }
      try (Optimizer optimizer = new Optimizer(plan.finish(), new OptimizerOptions().replicas(counts))) {
        for (int p = 0; p < 64; ++p) {
          optimizer.bind(p, Buffers.filled(256, 1), Buffers.filled(256, 1));
        }
        int before = exchanges[0];
        optimizer.step();
        assertTrue(exchanges[0] - before >= 30, (exchanges[0] - before) + " exchanges");
      }
    }
  }

  @Test
  void aCommunicatorWhoseRankIsNotBelowItsWorldIsRejectedAndReleased() {
    Ranks.Rank comm = new Ranks(2).new Rank(2);
    ShampooException error = assertThrows(ShampooException.Invalid.class, () -> Comm.of(comm));
    assertTrue(error.getMessage().contains("rank"), error.getMessage());
    assertEquals(1, comm.released);
  }

  @Test
  void aCommunicatorWithCallbacksInCIsAccepted() {
    assertThrows(ShampooException.Invalid.class, () -> Comm.ofAddress(0));
    int released = Foreign.releases();
    Comm comm = Comm.ofAddress(Foreign.ops());
    try (Config config = Model.config();
        Plan plan = new Plan(config, new PlanOptions().replica(0, 2))) {
      plan.addParam("w", 4);
      try (Optimizer optimizer = new Optimizer(plan.finish(), new OptimizerOptions().replicas(comm))) {
        comm.close();
        int before = Foreign.exchanges();
        optimizer.bind("w", Buffers.filled(4, 1), Buffers.filled(4, 1));
        optimizer.step();
        assertTrue(Foreign.exchanges() > before);
        assertEquals(released, Foreign.releases());
      }
    }
    assertEquals(released + 1, Foreign.releases());
    assertThrows(
        ShampooException.State.class, () -> Shampoo.save(List.of(), Path.of("nowhere"), comm, 0)); // comm is closed
  }

  /**
   * While a call uses a communicator, other calls that need it are rejected: two simultaneous exchanges of one
   * communicator would write to the same buffers.
   */
  @Test
  void callsAreRejectedWhileAnotherCallUsesTheirCommunicator(@TempDir Path folder) {
    Optimizer[] second = new Optimizer[1];
    List<ShampooException> rejections = new ArrayList<>();
    Communicator mirror =
        new Mirror() {
          @Override
          public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
            super.allGather(send, recv);
            if (second[0] != null) {
              rejections.add(assertThrows(ShampooException.State.class, second[0]::step));
              rejections.add(assertThrows(ShampooException.State.class, () -> second[0].status(true)));
              rejections.add(assertThrows(ShampooException.State.class, () -> second[0].save(folder)));
            }
          }
        };
    try (Config config = Model.config();
        Plan plan = new Plan(config, new PlanOptions().replica(0, 2));
        Comm comm = Comm.of(mirror)) {
      plan.addParam("w", 4);
      OptimizerOptions options = new OptimizerOptions().replicas(comm);
      try (Optimizer first = new Optimizer(plan.finish(), options);
          Optimizer other = new Optimizer(plan, options)) {
        first.bind("w", Buffers.filled(4, 1), Buffers.filled(4, 1));
        other.bind("w", Buffers.filled(4, 1), Buffers.filled(4, 1));
        second[0] = other;
        first.step();
        assertTrue(rejections.size() >= 3);
        for (ShampooException error : rejections) {
          assertTrue(error.getMessage().contains("one after another"), error.getMessage());
        }
        second[0] = null;
        other.step();
        assertEquals(1, other.stat("steps"));
        // save accepts a communicator that an optimizer uses. This call fails only because the simulated rank 1
        // reports the same files as rank 0.
        assertThrows(ShampooException.Files.class, () -> Shampoo.save(List.of(other), folder, comm, 0));
      }
    }
  }

  @Test
  void theErrorNamesTheNcclLibraryThatIsMissing() {
    assertThrows(ShampooException.Invalid.class, () -> Comm.ofNccl(0, null));
    ShampooException error = assertThrows(ShampooException.State.class, () -> Comm.ofNccl(64, "libnccl_is_not_here.so"));
    assertTrue(error.getMessage().contains("libnccl_is_not_here.so"), error.getMessage());
  }

  @Test
  void aCommunicatorCanBeCalledOnAThreadThatCStarted() {
    Fails comm = new Fails();
    try (Optimizer optimizer = alone(comm)) {
      optimizer.bind("w", Buffers.filled(4, 1), Buffers.filled(4, 1));
      assertEquals(0, (int) optimizer.handle.changeAndGet(optimizer, Foreign::step));
      comm.failing = true;
      assertEquals(6, (int) optimizer.handle.changeAndGet(optimizer, Foreign::step));
      assertEquals(1, comm.aborted);
    }
  }

  @Test
  void checkpointsOfTwoRanksAreLoadedByOne(@TempDir Path folder) throws Exception {
    Ranks ranks = new Ranks(2);
    Ranks world = new Ranks(2);
    Ranks.inThreads(
        2,
        rank -> {
          try (Config config = Model.config();
              Plan plan = new Plan(config, new PlanOptions().replica(rank, 2));
              Comm all = Comm.of(world.new Rank(rank))) {
            plan.addParam("w", 16);
            try (Optimizer optimizer =
                new Optimizer(plan.finish(), new OptimizerOptions().replicas(ranks.new Rank(rank)))) {
              optimizer.bind("w", Buffers.filled(16, 1), Buffers.filled(16, 1));
              optimizer.step();
              Shampoo.save(List.of(optimizer), folder, all, 0);
              Shampoo.load(List.of(optimizer), folder, all, 0);
            }
          }
          return null;
        });
    try (Config config = Model.config();
        Plan plan = new Plan(config)) {
      plan.addParam("w", 16);
      try (Optimizer optimizer = new Optimizer(plan.finish())) {
        optimizer.load(folder);
        StateEntry step =
            optimizer.stateEntries().stream().filter(entry -> entry.key().equals("group.0/step")).findFirst().orElseThrow();
        assertEquals(1, optimizer.readState(step).getLong());
      }
    }
  }
}
