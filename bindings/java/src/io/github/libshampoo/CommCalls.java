// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Adapter through which native code calls a communicator. */
final class CommCalls {
  private final Communicator communicator;
  private final int rank;
  private final int world;

  CommCalls(Communicator communicator) {
    this.communicator = communicator;
    rank = communicator.rank();
    world = communicator.world();
  }

  int rank() {
    return rank;
  }

  int world() {
    return world;
  }

  boolean hasAllToAll() {
    return communicator instanceof AllToAllCommunicator;
  }

  /** Returns whether the communicator overrides abort(). The default method does nothing. */
  boolean hasAbort() throws NoSuchMethodException {
    return communicator.getClass().getMethod("abort").getDeclaringClass() != Communicator.class;
  }

  private static ByteBuffer readOnly(ByteBuffer buffer) {
    return buffer.asReadOnlyBuffer().order(ByteOrder.nativeOrder());
  }

  void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
    communicator.allGather(readOnly(send), recv.order(ByteOrder.nativeOrder()));
  }

  void allToAll(ByteBuffer send, long[] sendBytes, ByteBuffer recv, long[] recvBytes) throws Exception {
    ByteBuffer source = readOnly(send);
    ((AllToAllCommunicator) communicator).allToAll(source, sendBytes, recv.order(ByteOrder.nativeOrder()), recvBytes);
  }

  void asyncError() throws Exception {
    communicator.asyncError();
  }

  void abort() {
    try {
      communicator.abort();
    } catch (Throwable thrown) {
      LogCalls.report(thrown);
    }
  }

  void release() {
    try {
      communicator.release();
    } catch (Throwable thrown) {
      LogCalls.report(thrown);
    }
  }
}
