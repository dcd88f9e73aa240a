// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;

/**
 * Shapes in; blocks, owners and byte counts out. A plan is filled, then finished, then read. It sees no buffer and touches
 * no device, so it is cheap to make one only to ask what a choice would cost.
 */
public final class Plan implements AutoCloseable {
  final Handle handle;
  final DeviceType device;
  private final List<Param> params = new ArrayList<>();

  /** Of each group, whether steps give what is to be added to its parameters (key "output"). */
  private final List<Boolean> updates = new ArrayList<>();

  /**
   * Begins a plan for one process on the CPU.
   *
   * @param config hyper-parameters of group 0 and of the optimizer as a whole; copied.
   * @throws ShampooException.Invalid values of the config contradict each other.
   */
  public Plan(Config config) {
    this(config, new Place());
  }

  /**
   * Begins a plan.
   *
   * @param config hyper-parameters of group 0 and of the optimizer as a whole; copied.
   * @param place where it is to be carried out; copied.
   * @throws ShampooException.Invalid values of the config contradict each other, a rank is not below its world, or threads
   *     are out of range.
   * @throws ShampooException.Unsupported a key has a value that does not work on CUDA yet.
   */
  public Plan(Config config, Place place) {
    device = place.device();
    long address;
    try (shampoo_plan_desc desc = place.toRaw()) {
      address =
          config.handle.read(
              config,
              from -> {
                long[] out = new long[1];
                Raw.shampoo_plan_create(out, from, desc);
                updates.add(givesUpdates(from));
                return out[0];
              });
    }
    handle = new Handle(this, "plan", address, Raw::shampoo_plan_destroy);
  }

  /**
   * Adds a parameter group: parameters that share hyper-parameters and a step counter.
   *
   * @param config hyper-parameters of the group; copied. Keys of the whole optimizer are as in the plan's own.
   * @return its number: 1 for the first that is added.
   * @throws ShampooException.Invalid values of the config contradict each other, or those of the plan.
   * @throws ShampooException.State the plan is finished.
   */
  public int addGroup(Config config) {
    return handle.changeAndGet(
        this,
        plan ->
            config.handle.read(
                config,
                from -> {
                  int[] group = new int[1];
                  Raw.shampoo_plan_add_group(plan, from, group);
                  updates.add(givesUpdates(from));
                  return group[0];
                }));
  }

  /**
   * Adds a parameter.
   *
   * @param param name, shape, types and group.
   * @return its index, counted from 0 in the order of adding.
   * @throws ShampooException.Invalid the name is empty or taken, or a dim, type, group or shard is out of range.
   * @throws ShampooException.State the plan is finished.
   */
  public int addParam(Param param) {
    return handle.changeAndGet(
        this,
        plan -> {
          int[] index = new int[1];
          try (shampoo_param_desc desc = param.toRaw(param.dims())) {
            Raw.shampoo_plan_add_param(plan, desc, index);
          }
          params.add(param);
          return index[0];
        });
  }

  /**
   * Adds a float32 parameter.
   *
   * @param name as of {@link Param#Param}.
   * @param shape as of {@link Param#Param}.
   * @return its index.
   * @throws ShampooException.Invalid as of {@link #addParam(Param)}.
   * @throws ShampooException.State the plan is finished.
   */
  public int addParam(String name, long... shape) {
    return addParam(new Param(name, shape));
  }

  /**
   * Tells what another shard rank holds of a parameter, which "shard_mode" gather needs to know where the cut is none of
   * the regular ones. Every rank tells the same.
   *
   * @param index of a parameter that has been added.
   * @param shardRank in [0, number of shards).
   * @param shard only its flatShard or rectangle is read.
   * @throws ShampooException.Invalid index or rank is out of range, or the shard is not within the parameter.
   * @throws ShampooException.State the plan is finished.
   */
  public void addShard(int index, int shardRank, Param shard) {
    handle.change(
        this,
        plan -> {
          int dims = index >= 0 && index < params.size() ? params.get(index).dims() : shard.dims();
          try (shampoo_param_desc desc = shard.toRaw(dims)) {
            Raw.shampoo_plan_add_shard(plan, index, shardRank, desc);
          }
        });
  }

  /**
   * Works out blocks, owners and bytes. Afterwards the plan does not change any more.
   *
   * @return this plan.
   * @throws ShampooException.Invalid a block is too large, there are too many, or shards do not fit together.
   * @throws ShampooException.State the plan is finished already.
   */
  public Plan finish() {
    handle.change(this, Raw::shampoo_plan_finish);
    return this;
  }

  /**
   * The parameters.
   *
   * @return in the order of adding.
   */
  public List<Param> params() {
    return handle.read(this, plan -> List.copyOf(params));
  }

  private static boolean givesUpdates(long config) {
    return "updates".equals(Raw.shampoo_config_get(config, "output"));
  }

  /** Number of groups, the plan's own included. */
  int groups() {
    return handle.read(this, plan -> updates.size());
  }

  /** Which parameters are in such a group. */
  List<Boolean> updates() {
    return handle.read(this, plan -> params.stream().map(param -> updates.get(param.group())).toList());
  }

  /**
   * The blocks, of all owners together.
   *
   * @return in the order of the plan: by parameter, the chunks of its first dim outermost.
   * @throws ShampooException.State the plan is not finished.
   */
  public List<Block> blocks() {
    return handle.read(
        this,
        plan -> {
          long[] count = new long[1];
          Raw.shampoo_plan_block_count(plan, count);
          try (shampoo_block_info info = new shampoo_block_info()) {
            return LongStream.range(0, count[0]).mapToObj(index -> block(plan, index, info)).toList();
          }
        });
  }

  private static Block block(long plan, long index, shampoo_block_info info) {
    Raw.shampoo_plan_block(plan, index, info);
    return new Block(
        info.getParam(), info.getOwner(), info.getShard_owner(), info.getOf_shard() == 1,
        listed(info.getShape(), info.getNdim()), listed(info.getStride(), info.getNdim()), info.getFlat_offset(),
        info.getState_bytes());
  }

  static List<Long> listed(long[] numbers, int count) {
    return Arrays.stream(numbers, 0, count).boxed().toList();
  }

  /**
   * Bytes that an optimizer of this plan allocates on a rank.
   *
   * @param what "state", "workspace", "total" (the sum), or "comm": what the rank sends in a step.
   * @param rank replica rank; with "shard_mode" gather replica rank * shards + shard rank; -1: this rank.
   * @return the number of bytes.
   * @throws ShampooException.Invalid rank or what is none of these.
   * @throws ShampooException.State the plan is not finished.
   */
  public long bytes(String what, int rank) {
    Objects.requireNonNull(what, "what");
    return handle.read(
        this,
        plan -> {
          long[] bytes = new long[1];
          Raw.shampoo_plan_bytes(plan, rank, what, bytes);
          return bytes[0];
        });
  }

  /**
   * The same of this rank.
   *
   * @param what as of {@link #bytes(String, int)}.
   * @return the number of bytes.
   * @throws ShampooException.Invalid what is none of these.
   * @throws ShampooException.State the plan is not finished.
   */
  public long bytes(String what) {
    return bytes(what, -1);
  }

  /** Ends the plan; optimizers that were made from it go on. It can be called again. */
  @Override
  public void close() {
    handle.closeUnused();
  }
}
