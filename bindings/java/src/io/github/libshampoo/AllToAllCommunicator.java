// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;

/**
 * A communicator with an all-to-all, for shards with "shard_mode" gather: without it the all-gather is used, which takes
 * more memory and sends more. All ranks have it, or none.
 */
public interface AllToAllCommunicator extends Communicator {
  /**
   * Sends a part to each rank, this one included, and receives one from each. Parts lie in the order of ranks, without
   * gaps, and may have no bytes.
   *
   * @param send what this rank sends, read-only.
   * @param sendBytes bytes that go to each rank.
   * @param recv room for what comes. Both are memory of the library, as of {@link #allGather}.
   * @param recvBytes bytes that come from each rank.
   * @throws Exception the exchange failed.
   */
  void allToAll(ByteBuffer send, long[] sendBytes, ByteBuffer recv, long[] recvBytes) throws Exception;
}
