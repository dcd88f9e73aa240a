// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.Objects;

/** Where a plan is to be carried out: by default in one process, on the CPU, with all its processors. */
public final class Place {
  private DeviceType device = DeviceType.CPU;
  private int threads;
  private int replicaRank;
  private int replicaWorld = 1;
  private int shardRank;
  private int shardWorld = 1;

  /** One process, on the CPU, with as many threads as the key "threads" says. */
  public Place() {}

  /**
   * Chooses the type of device.
   *
   * @param type CPU (default) or CUDA, which need not be there to make a plan.
   * @return this.
   */
  public Place device(DeviceType type) {
    device = Objects.requireNonNull(type, "device");
    return this;
  }

  /**
   * Says how many threads work on a step, the caller's among them.
   *
   * @param count 0 (default): as the key "threads" says.
   * @return this.
   */
  public Place threads(int count) {
    threads = count;
    return this;
  }

  /**
   * Places this process among those that hold the same parameters.
   *
   * @param rank in [0, world).
   * @param world their number.
   * @return this.
   */
  public Place replica(int rank, int world) {
    replicaRank = rank;
    replicaWorld = world;
    return this;
  }

  /**
   * Places this process among those that hold the shards of one copy.
   *
   * @param rank in [0, world).
   * @param world their number.
   * @return this.
   */
  public Place shard(int rank, int world) {
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
