// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;

/**
 * Computes blocks, owners and memory from the shapes of parameters. Add groups and parameters, finish the plan, then
 * read the results. A plan uses no buffers and no device, so it is cheap to create a plan only to compare settings.
 */
public final class Plan implements AutoCloseable {
  final Handle handle;
  final DeviceType device;
  private final List<Param> params = new ArrayList<>();

  /** For each group, whether its config sets "output=updates". */
  private final List<Boolean> updates = new ArrayList<>();

  /**
   * Creates a plan for one process on the CPU.
   *
   * @param config hyper-parameters of group 0 and of the whole optimizer; copied.
   * @throws ShampooException.Invalid if values of the config contradict each other.
   */
  public Plan(Config config) {
    this(config, new PlanOptions());
  }

  /**
   * Creates a plan.
   *
   * @param config hyper-parameters of group 0 and of the whole optimizer; copied.
   * @param options device, threads and ranks; copied.
   * @throws ShampooException.Invalid if values of the config contradict each other, or a rank, the
   *     number of ranks or the number of threads is out of range.
   * @throws ShampooException.Unsupported if the value of a key is not supported on CUDA yet.
   */
  public Plan(Config config, PlanOptions options) {
    device = options.device();
    long address;
    try (shampoo_plan_desc desc = options.toRaw()) {
      address =
          config.handle.read(
              config,
              from -> {
                long[] out = new long[1];
                Raw.shampoo_plan_create(out, from, desc);
                updates.add(hasUpdates(from));
                return out[0];
              });
    }
    handle = new Handle(this, "plan", address, Raw::shampoo_plan_destroy);
  }

  /**
   * Adds a parameter group: parameters that share hyper-parameters and a step counter.
   *
   * @param config hyper-parameters of the group; copied. If it sets a key of the whole optimizer, the value must be the
   *     same as in the config of the plan.
   * @return number of the group: 1 for the first group that is added.
   * @throws ShampooException.Invalid if values of the config contradict each other or the config of the plan.
   * @throws ShampooException.State if the plan is finished.
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
                  updates.add(hasUpdates(from));
                  return group[0];
                }));
  }

  /**
   * Adds a parameter.
   *
   * @param param name, shape, types and group.
   * @return index of the parameter: 0 for the first parameter that is added.
   * @throws ShampooException.Invalid if the name is empty or already used, or a dim, type, group or shard is out of
   *     range.
   * @throws ShampooException.State if the plan is finished.
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
   * @param name as in {@link Param#Param}.
   * @param shape as in {@link Param#Param}.
   * @return index of the parameter.
   * @throws ShampooException.Invalid as in {@link #addParam(Param)}.
   * @throws ShampooException.State if the plan is finished.
   */
  public int addParam(String name, long... shape) {
    return addParam(new Param(name, shape));
  }

  /**
   * Declares which part of a parameter another shard rank holds. With "shard_mode=gather", a plan must know the shards
   * of all ranks. The library infers them if every rank holds the whole parameter, or if the ranks hold equal chunks of
   * the flattened parameter or of its first dim. Otherwise every rank must declare the shards of all other ranks.
   *
   * @param index index of a parameter that has been added.
   * @param shardRank the other rank, in [0, number of shards).
   * @param shard description of the shard of that rank. Only the values of {@link Param#flatShard} or
   *     {@link Param#rectangle} are read.
   * @throws ShampooException.Invalid if the index or the rank is out of range, or the shard is not inside the
   *     parameter.
   * @throws ShampooException.State if the plan is finished.
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
   * Computes the blocks, owners and memory. The plan cannot be changed afterwards.
   *
   * @return this plan.
   * @throws ShampooException.Invalid for example if a block is too large, or there are too many blocks. With
   *     "shard_mode=gather", also if a shard is not known, or the shards of a parameter leave gaps or overlap. Shards
   *     may overlap only if each of them is the whole parameter. The C header lists all causes.
   * @throws ShampooException.State if the plan is already finished.
   */
  public Plan finish() {
    handle.change(this, Raw::shampoo_plan_finish);
    return this;
  }

  /**
   * Returns the parameters.
   *
   * @return the parameters, in the order in which they were added.
   */
  public List<Param> params() {
    return handle.read(this, plan -> List.copyOf(params));
  }

  private static boolean hasUpdates(long config) {
    return "updates".equals(Raw.shampoo_config_get(config, "output"));
  }

  /** Returns the number of groups, including group 0. */
  int groups() {
    return handle.read(this, plan -> updates.size());
  }

  /** Returns for each parameter whether the config of its group sets "output=updates". */
  List<Boolean> updates() {
    return handle.read(this, plan -> params.stream().map(param -> updates.get(param.group())).toList());
  }

  /**
   * Returns the blocks of all owners.
   *
   * @return the blocks, ordered by parameter and then by position. The position along the last dim changes fastest.
   * @throws ShampooException.State if the plan is not finished.
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
        toList(info.getShape(), info.getNdim()), toList(info.getStride(), info.getNdim()), info.getFlat_offset(),
        info.getState_bytes());
  }

  static List<Long> toList(long[] numbers, int count) {
    return Arrays.stream(numbers, 0, count).boxed().toList();
  }

  /**
   * Returns the number of bytes that an optimizer with this plan allocates or sends on a rank.
   *
   * @param what "state", "workspace", "total" (the sum of state and workspace), or "comm" (the bytes that the rank
   *     sends in a step).
   * @param rank replica rank or, with "shard_mode=gather", replica rank * number of shards + shard rank; -1: this rank.
   * @return the number of bytes.
   * @throws ShampooException.Invalid if {@code what} is unknown, or the rank is out of range.
   * @throws ShampooException.State if the plan is not finished.
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
   * Returns the number of bytes that an optimizer with this plan allocates or sends on this rank.
   *
   * @param what as in {@link #bytes(String, int)}.
   * @return the number of bytes.
   * @throws ShampooException.Invalid if {@code what} is unknown.
   * @throws ShampooException.State if the plan is not finished.
   */
  public long bytes(String what) {
    return bytes(what, -1);
  }

  /** Releases the plan. Optimizers that were created from it are not affected. A second call has no effect. */
  @Override
  public void close() {
    handle.closeUnused();
  }
}
