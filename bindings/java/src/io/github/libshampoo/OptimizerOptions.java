// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

/** What an optimizer is made on: by default the CPU, one rank, and memory of the library. */
public final class OptimizerOptions {
  Communicator replicas;
  Communicator shards;
  Comm replicaComm;
  Comm shardComm;
  Memory state;
  int deviceId;
  long stream;

  /** The CPU, one rank, and memory of the library. */
  public OptimizerOptions() {}

  /**
   * Ranks that hold the same parameters, as many as the plan's replicas.
   *
   * @param communicator functions in Java, called until its release.
   * @return this.
   */
  public OptimizerOptions replicas(Communicator communicator) {
    replicas = communicator;
    replicaComm = null;
    return this;
  }

  /**
   * Ranks that hold the same parameters, as many as the plan's replicas.
   *
   * @param comm may be closed once the optimizer is made.
   * @return this.
   */
  public OptimizerOptions replicas(Comm comm) {
    replicaComm = comm;
    replicas = null;
    return this;
  }

  /**
   * Ranks that hold the shards of one copy, as many as the plan's shards.
   *
   * @param communicator functions in Java, called until its release.
   * @return this.
   */
  public OptimizerOptions shards(Communicator communicator) {
    shards = communicator;
    shardComm = null;
    return this;
  }

  /**
   * Ranks that hold the shards of one copy, as many as the plan's shards.
   *
   * @param comm may be closed once the optimizer is made.
   * @return this.
   */
  public OptimizerOptions shards(Comm comm) {
    shardComm = comm;
    shards = null;
    return this;
  }

  /**
   * Memory for the state, which is initialised, and held.
   *
   * @param arena of plan.bytes("state") bytes, aligned to 64: {@code ByteBuffer.alignedSlice(64)} gives such.
   * @return this.
   */
  public OptimizerOptions state(Memory arena) {
    state = arena;
    return this;
  }

  /**
   * Which GPU, counted as CUDA does.
   *
   * @param number 0 (default) is the first, and the only device on the CPU.
   * @return this.
   */
  public OptimizerOptions deviceId(int number) {
    deviceId = number;
    return this;
  }

  /**
   * On CUDA the stream in whose order the state is initialised.
   *
   * @param address of the cudaStream_t; 0 (default) is the legacy default stream, and the only one on the CPU.
   * @return this.
   */
  public OptimizerOptions stream(long address) {
    stream = address;
    return this;
  }
}
