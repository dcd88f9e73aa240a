// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;

/**
 * Ranks that an optimizer works with, by functions in Java: on memory of the host. An exception in one of them makes the
 * call fail with {@link ShampooException.Collective}, whose cause it is, and tears the communicator down: {@link #abort}
 * is for the other ranks. Functions are called on the thread that is inside the call of the optimizer.
 *
 * <p>A communicator is held until {@link #release}: one that refers to its optimizer keeps that alive until it is closed.
 */
public interface Communicator {
  /**
   * This process among the ranks.
   *
   * @return in [0, world).
   */
  int rank();

  /**
   * Number of ranks.
   *
   * @return at least 1.
   */
  int world();

  /**
   * Fills recv, whose part r is what rank r has sent, and returns when it is filled. Every rank makes the same sequence of
   * calls with the same sizes.
   *
   * @param send what this rank sends, read-only. It may be this rank's part of recv.
   * @param recv room for world times as many bytes. Both are memory of the library, which may be gone after the call:
   *     nothing may look at them then.
   * @throws Exception the exchange failed.
   */
  void allGather(ByteBuffer send, ByteBuffer recv) throws Exception;

  /**
   * Tells of a failure that came later than the call that caused it. Asked before each exchange.
   *
   * @throws Exception what has failed.
   */
  default void asyncError() throws Exception {}

  /** Makes exchanges of other ranks that wait for this one fail. Called once, after an exchange failed on this rank. */
  default void abort() {}

  /** Called after the last use: once for each optimizer or {@link Comm} that was made with it. */
  default void release() {}
}
