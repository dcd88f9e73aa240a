// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;

/**
 * Exchanges data between ranks, in host memory. Implement it in Java to connect the optimizers of several ranks.
 *
 * <p>Methods run on the thread that calls the optimizer. A call of {@link #allGather}, or of
 * {@link AllToAllCommunicator#allToAll}, is an exchange. If an exchange or {@link #asyncError} throws an exception, the
 * call of the optimizer fails with {@link ShampooException.Collective}, whose cause is this exception. Later calls that
 * use the communicator fail, too. After the exception, the library calls {@link #abort} if the class implements it.
 * Otherwise an optimizer on the CPU makes one more exchange, in which this rank reports the failure to the other ranks.
 *
 * <p>The library keeps a reference to the communicator until it calls {@link #release}. Therefore a communicator that
 * refers to its optimizer keeps that optimizer alive until the optimizer is closed.
 */
public interface Communicator {
  /**
   * Returns the rank of this process.
   *
   * @return the rank, in [0, world).
   */
  int rank();

  /**
   * Returns the number of ranks.
   *
   * @return the number of ranks, at least 1.
   */
  int world();

  /**
   * Sends data to all ranks and receives the data of all ranks. Part r of recv is the data of rank r. Returns after
   * recv has been filled. All ranks make the same sequence of calls with the same sizes.
   *
   * @param send the data of this rank, read-only. It may be this rank's part of recv.
   * @param recv buffer for the data of all ranks. Both buffers are valid only during the call; do not access them
   *     afterwards.
   * @throws Exception if the exchange failed.
   */
  void allGather(ByteBuffer send, ByteBuffer recv) throws Exception;

  /**
   * Reports an earlier exchange that failed after its call had returned. It is called before each exchange.
   *
   * @throws Exception if there is such a failure.
   */
  default void asyncError() throws Exception {}

  /**
   * Optional. Lets the other ranks fail instead of waiting for this rank in an exchange. It is called at most once:
   * after an exchange failed on this rank, after this rank received invalid data, or after this rank failed at a point
   * where other ranks would wait for it.
   *
   * <p>Implement it only if it makes the waiting ranks fail. Without it, an optimizer on the CPU reports the failure to
   * the other ranks in one more exchange: the next exchange of the same step or, if there is none, the first exchange
   * of its next step. Until then, the other ranks wait.
   */
  default void abort() {}

  /**
   * Called after the last use, once for each {@link Comm} that was created with this communicator, and once for each
   * optimizer whose {@link OptimizerOptions} contain it.
   */
  default void release() {}
}
