// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;

/** A communicator for rank 0 of 2. Rank 1 is simulated: in each exchange it sends a copy of what rank 0 sends. */
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
