// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.nio.ByteBuffer;

/**
 * Exchanges data between ranks, in host memory. A class that implements this interface connects
 * the optimizers of several ranks.
 *
 * <p>Methods run on the thread that calls the library. A call of {@link #allGather}, or of
 * {@link AllToAllCommunicator#allToAll}, is an exchange. If an exchange or {@link #asyncError} throws an exception E,
 * the call of the optimizer throws {@link ShampooException.Collective}, whose cause is E. Later calls that use the
 * communicator fail, too. After E, the library calls {@link #abort} if the class implements abort. If the class does
 * not implement abort, an optimizer on the CPU makes one more exchange to report the failure to the other ranks.
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
   * @param send the data of this rank, read-only. The memory of send may be this rank's part of the memory of recv.
   * @param recv buffer for the data of all ranks. Both buffers are valid only during the call; do not access them
   *     afterwards.
   * @throws Exception if the exchange failed.
   */
  void allGather(ByteBuffer send, ByteBuffer recv) throws Exception;

  /**
   * Throws an exception if an earlier exchange failed after its call had returned. The library calls this method before
   * each exchange.
   *
   * @throws Exception if an earlier exchange failed.
   */
  default void asyncError() throws Exception {}

  /**
   * Optional. Lets the other ranks fail instead of waiting for this rank in an exchange. The library calls this method
   * at most once: after an exchange failed on this rank, after this rank received invalid data, or after this rank
   * failed at a point where other ranks would wait for it.
   *
   * <p>Implement this method only if it makes the waiting ranks fail. If it is not implemented, an optimizer on the CPU
   * reports the failure to the other ranks in one more exchange. This is the next exchange of the step that failed or,
   * if there is none, the first exchange of the next step. Until then, the other ranks wait.
   */
  default void abort() {}

  /**
   * Releases resources. The library calls this method once for each {@link Comm} that was created with this
   * communicator, and once for each optimizer whose {@link OptimizerOptions} contain this communicator. For a
   * Comm, the call comes when the Comm and all optimizers that use the Comm have been closed. For an optimizer, the
   * call comes when the optimizer has been closed.
   */
  default void release() {}
}
