// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.Objects;

/** Options of a plan: the device, the number of threads and the ranks. The defaults are the CPU and one process. */
public final class PlanOptions {
  private DeviceType device = DeviceType.CPU;
  private int threads;
  private int replicaRank;
  private int replicaWorld = 1;
  private int shardRank;
  private int shardWorld = 1;

  /** Creates options for one process on the CPU, with the number of threads that the key "threads" specifies. */
  public PlanOptions() {}

  /**
   * Sets the type of device. The device does not have to exist.
   *
   * @param type CPU (default) or CUDA.
   * @return this.
   */
  public PlanOptions device(DeviceType type) {
    device = Objects.requireNonNull(type, "device");
    return this;
  }

  /**
   * Sets the number of threads that work on a step, including the calling thread.
   *
   * @param count number of threads; 0 (default) selects the value of the key "threads".
   * @return this.
   */
  public PlanOptions threads(int count) {
    threads = count;
    return this;
  }

  /**
   * Sets the rank of this process among the processes that hold the same parameters.
   *
   * @param rank rank of this process, in [0, world).
   * @param world number of processes.
   * @return this.
   */
  public PlanOptions replica(int rank, int world) {
    replicaRank = rank;
    replicaWorld = world;
    return this;
  }

  /**
   * Sets the rank of this process among the processes that hold the shards of one copy of the parameters.
   *
   * @param rank rank of this process, in [0, world).
   * @param world number of processes.
   * @return this.
   */
  public PlanOptions shard(int rank, int world) {
    shardRank = rank;
    shardWorld = world;
    return this;
  }

  DeviceType device() {
    return device;
  }

  shampoo_plan_desc toRaw() {
    shampoo_plan_desc desc = new shampoo_plan_desc();
    desc.setDevice_type(device.code);
    desc.setThreads(threads);
    desc.setReplica_rank(replicaRank);
    desc.setReplica_world(replicaWorld);
    desc.setShard_rank(shardRank);
    desc.setShard_world(shardWorld);
    return desc;
  }
}
