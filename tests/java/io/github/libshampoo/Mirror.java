// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;

/** A communicator for rank 0 of 2. allGather() simulates rank 1: the segment of rank 1 is a copy of that of rank 0. */
class Mirror implements Communicator {
  @Override
  public int rank() {
    return 0;
  }

  @Override
  public int world() {
    return 2;
  }

  @Override
  public void allGather(ByteBuffer send, ByteBuffer recv) throws Exception {
    byte[] bytes = new byte[send.remaining()];
    send.get(bytes);
    recv.put(bytes).put(bytes);
  }
}
