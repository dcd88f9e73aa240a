// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** Options of an optimizer. The defaults are device 0, one rank, and memory that the library allocates. */
public final class OptimizerOptions {
  Communicator replicas;
  Communicator shards;
  Comm replicaComm;
  Comm shardComm;
  Memory state;
  int deviceId;
  long stream;

  /** Creates options with the defaults. */
  public OptimizerOptions() {}

  /**
   * Sets the communicator of the ranks that hold the same parameters. The plan must have as many replicas as the
   * communicator has ranks.
   *
   * @param communicator an implementation in Java, which is used until the library calls its {@code release()}.
   * @return this.
   */
  public OptimizerOptions replicas(Communicator communicator) {
    replicas = communicator;
    replicaComm = null;
    return this;
  }

  /**
   * Sets the communicator of the ranks that hold the same parameters. The plan must have as many replicas as the
   * communicator has ranks.
   *
   * @param comm the communicator. It can be closed after the optimizer has been created.
   * @return this.
   */
  public OptimizerOptions replicas(Comm comm) {
    replicaComm = comm;
    replicas = null;
    return this;
  }

  /**
   * Sets the communicator of the ranks that hold the shards of one copy of the parameters. The plan must have as many
   * shards as the communicator has ranks.
   *
   * @param communicator an implementation in Java, which is used until the library calls its {@code release()}.
   * @return this.
   */
  public OptimizerOptions shards(Communicator communicator) {
    shards = communicator;
    shardComm = null;
    return this;
  }

  /**
   * Sets the communicator of the ranks that hold the shards of one copy of the parameters. The plan must have as many
   * shards as the communicator has ranks.
   *
   * @param comm the communicator. It can be closed after the optimizer has been created.
   * @return this.
   */
  public OptimizerOptions shards(Comm comm) {
    shardComm = comm;
    shards = null;
    return this;
  }

  /**
   * Sets the memory in which the optimizer stores its state. The optimizer initializes this memory, and keeps it alive.
   *
   * @param arena memory of plan.bytes("state") bytes, aligned to 64 bytes. {@link Shampoo#bytes} allocates such a
   *     buffer; pass it to {@link Memory#of(java.nio.Buffer)}.
   * @return this.
   */
  public OptimizerOptions state(Memory arena) {
    state = arena;
    return this;
  }

  /**
   * Selects the GPU.
   *
   * @param number number of the device in CUDA's numbering; 0 (default) is the first GPU. On the CPU, number must be 0.
   * @return this.
   */
  public OptimizerOptions deviceId(int number) {
    deviceId = number;
    return this;
  }

  /**
   * Sets the CUDA stream on which the state is initialized.
   *
   * @param address the cudaStream_t, as an integer; 0 (default) is the legacy default stream. On the CPU, address must
   *     be 0.
   * @return this.
   */
  public OptimizerOptions stream(long address) {
    stream = address;
    return this;
  }
}
