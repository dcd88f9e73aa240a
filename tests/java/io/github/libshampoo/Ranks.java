// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Connects ranks that are threads of one process. */
final class Ranks {
  static final long PATIENCE = 60; // how long a rank waits for others, in seconds

  private final byte[][] sent;
  private final long[][] counts;
  private int here;
  private int meetings;
  private boolean broken;

  Ranks(int world) {
    sent = new byte[world][];
    counts = new long[world][];
  }

  /** Waits until all ranks have called this method. */
  private synchronized void meet() throws Exception {
    int mine = meetings;
    if (++here == sent.length) {
      here = 0;
      ++meetings;
      notifyAll();
    }
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE);
    while (meetings == mine && !broken && System.nanoTime() < until) {
      wait(1000);
    }
    if (meetings == mine) {
      throw new IOException(broken ? "another rank has failed" : "another rank did not arrive");
    }
  }

  private synchronized void breakOff() {
    broken = true;
    notifyAll();
  }

  /** The communicator of one rank. */
  class Rank implements Communicator {
    final int rank;
    volatile int released;

    Rank(int rank) {
      this.rank = rank;
    }

    @Override
    public int rank() {
      return rank;
    }

    @Override
    public int world() {
      return sent.length;
    }

    @Override
    public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
      sent[rank] = new byte[send.remaining()];
      send.get(sent[rank]);
      meet();
      for (byte[] part : sent) {
        recv.put(part);
      }
      meet();
    }

    @Override
    public void abort() {
      breakOff();
    }

    @Override
    public void release() {
      ++released;
    }
  }

  /** The communicator of one rank. It also supports all-to-all. */
  class Exchanging extends Rank implements AllToAllCommunicator {
    volatile int exchanges;

    Exchanging(int rank) {
      super(rank);
    }

    @Override
    public void allToAll(ByteBuffer send, long[] sendBytes, ByteBuffer recv, long[] recvBytes) throws Exception {
      ++exchanges;
      sent[rank] = new byte[send.remaining()];
      send.get(sent[rank]);
      counts[rank] = sendBytes;
      meet();
      for (int peer = 0; peer < sent.length; ++peer) {
        int first = 0;
        for (int before = 0; before < rank; ++before) {
          first += (int) counts[peer][before];
        }
        if (counts[peer][rank] != recvBytes[peer]) {
          throw new AssertionError("rank " + peer + " sends " + counts[peer][rank] + " bytes, not " + recvBytes[peer]);
        }
        recv.put(sent[peer], first, (int) recvBytes[peer]);
      }
      meet();
    }
  }

  /** A function that each thread calls with the number of its rank. */
  interface Work<T> {
    T of(int rank) throws Exception;
  }

  static <T> List<T> inThreads(int count, Work<T> work) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(count);
    try {
      List<Callable<T>> calls = new ArrayList<>();
      for (int rank = 0; rank < count; ++rank) {
        int own = rank;
        calls.add(() -> work.of(own));
      }
      List<T> results = new ArrayList<>();
      for (Future<T> future : pool.invokeAll(calls, 2 * PATIENCE, TimeUnit.SECONDS)) {
        results.add(future.get());
      }
      return results;
    } finally {
      pool.shutdownNow();
    }
  }
}
