// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;

/**
 * A communicator with an all-to-all exchange, for shards with "shard_mode" gather. If a communicator does not implement
 * this interface, the library uses the all-gather, which needs more memory and sends more data. Either all ranks
 * implement the interface, or no rank does.
 */
public interface AllToAllCommunicator extends Communicator {
  /**
   * Sends a part to each rank, including this one, and receives a part from each. Parts are in the order of the ranks,
   * without gaps, and may be empty.
   *
   * @param send the data to send, read-only.
   * @param sendBytes number of bytes to send to each rank.
   * @param recv buffer for the received data. Both buffers are valid only during the call, as in {@link #allGather}.
   * @param recvBytes number of bytes to receive from each rank.
   * @throws Exception if the exchange failed.
   */
  void allToAll(ByteBuffer send, long[] sendBytes, ByteBuffer recv, long[] recvBytes) throws Exception;
}
