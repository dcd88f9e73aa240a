// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;

/**
 * A communicator with an all-to-all exchange, for shards with "shard_mode=gather". If a communicator does not implement
 * this interface, the library calls {@link #allGather} instead, which needs more memory and sends more data. If the
 * communicator of one rank implements this interface, the communicators of all ranks must implement it.
 */
public interface AllToAllCommunicator extends Communicator {
  /**
   * Sends one part of {@code send} to each rank, including this rank, and receives one part of {@code recv} from each
   * rank. In both buffers, the parts are in the order of the ranks, without gaps. Parts may be empty.
   *
   * @param send the data to send, read-only.
   * @param sendBytes number of bytes to send to each rank.
   * @param recv buffer for the received data. Both buffers are valid only during the call, as in {@link #allGather}.
   * @param recvBytes number of bytes to receive from each rank.
   * @throws Exception if the exchange failed.
   */
  void allToAll(ByteBuffer send, long[] sendBytes, ByteBuffer recv, long[] recvBytes) throws Exception;
}
