// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.lang.ref.Reference;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/**
 * A Shampoo optimizer. Steps read and write bound memory in place. The optimizer keeps bound buffers alive until others
 * are bound in their place or the optimizer is closed.
 *
 * <p>Only one thread at a time can use an optimizer. While a call runs, calls on other threads throw
 * {@link ShampooException.State}, except {@link #close}, which waits. Different threads can use different optimizers at
 * the same time. An optimizer that is not closed is destroyed some time after it becomes unreachable.
 */
public final class Optimizer implements AutoCloseable {
  final Handle handle;
  final List<Comm> comms;
  private final DeviceType device;
  private final int groups;

  /**
   * Creates an optimizer for one rank, and initializes its state.
   *
   * @param plan a finished plan.
   * @throws ShampooException.State if the plan is not finished.
   * @throws ShampooException.OutOfMemory if memory or threads run out; the message has the requested size.
   */
  public Optimizer(Plan plan) {
    this(plan, new OptimizerOptions());
  }

  /**
   * Creates an optimizer, and initializes its state. With a communicator, all ranks must make this call. The ranks
   * compare their plans. If the plans differ or one rank fails, the call fails on all ranks.
   *
   * @param plan a finished plan. The plans of all ranks must be equal.
   * @param options communicators, memory and device.
   * @throws ShampooException.Invalid if the memory for the state has the wrong size or alignment, if a communicator and
   *     the plan differ in the rank or the number of ranks, or if the plans of the ranks differ.
   * @throws ShampooException.State if the plan is not finished.
   * @throws ShampooException.Unsupported if CUDA cannot be used in this process.
   * @throws ShampooException.Collective if an exchange failed.
   * @throws ShampooException.OutOfMemory if memory or threads run out; the message has the requested size.
   */
  public Optimizer(Plan plan, OptimizerOptions options) {
    device = plan.device;
    groups = plan.groups();
    Comm replicas = options.replicas != null ? Comm.of(options.replicas) : options.replicaComm;
    Comm shards = null;
    try {
      shards = options.shards != null ? Comm.of(options.shards) : options.shardComm;
      comms = Stream.of(replicas, shards).filter(Objects::nonNull).toList();
      Comm[] both = {replicas, shards};
      long address = Comm.using(comms, () -> create(plan, options, both[0], both[1]));
      handle = new Handle(this, "optimizer", address, Raw::shampoo_optimizer_destroy);
    } finally {
      if (options.replicas != null) {
        replicas.close();
      }
      if (options.shards != null && shards != null) {
        shards.close();
      }
    }
    handle.held = new Bound(plan.params(), plan.updates(), device, plan.bytes("state"), options.state);
  }

  /**
   * Creates an optimizer that updates tensors in place, with one parameter group, for one rank on the CPU.
   *
   * @param options hyper-parameters, as in {@link Config#parse}, such as "lr=0.1 weight_decay=0.01". "" selects the
   *     defaults.
   * @param tensors the parameters with their gradients. Their buffers are bound.
   * @return the optimizer.
   * @throws ShampooException.Invalid if an option or a tensor is wrong; the message names the option or the tensor.
   * @throws ShampooException.OutOfMemory if memory or threads run out.
   */
  public static Optimizer create(String options, Tensor... tensors) {
    try (Config config = new Config().parse(options);
        Plan plan = new Plan(config)) {
      for (Tensor tensor : tensors) {
        plan.addParam(tensor.param);
      }
      Optimizer optimizer = new Optimizer(plan.finish());
      try {
        optimizer.bind(0, Stream.of(tensors).map(tensor -> Binding.inPlace(tensor.data, tensor.grad)).toList());
      } catch (RuntimeException failure) {
        optimizer.close();
        throw failure;
      }
      return optimizer;
    }
  }

  private static long create(Plan plan, OptimizerOptions options, Comm replicas, Comm shards) {
    return withComm(
        replicas,
        replicaComm ->
            withComm(
                shards,
                shardComm ->
                    plan.handle.read(
                        plan,
                        from -> {
                          long[] out = new long[1];
                          try (shampoo_optimizer_desc desc = new shampoo_optimizer_desc()) {
                            desc.setDevice_type(plan.device.code);
                            desc.setDevice_id(options.deviceId);
                            desc.setReplica_comm(replicaComm);
                            desc.setShard_comm(shardComm);
                            desc.setStream(options.stream);
                            desc.setState(Memory.addressOf(options.state));
                            desc.setState_bytes(options.state != null ? options.state.bytes() : 0);
                            Raw.shampoo_optimizer_create(out, from, desc);
                          }
                          return out[0];
                        })));
  }

  static <T> T withComm(Comm comm, LongFunction<T> call) {
    return comm != null ? comm.handle.read(comm, call) : call.apply(0);
  }

  /** Runs a call that may use the communicators. */
  private void exchange(LongConsumer call) {
    handle.change(
        this,
        opt ->
            Comm.using(
                comms,
                () -> {
                  call.accept(opt);
                  return null;
                }));
  }

  private Bound bound() {
    return (Bound) handle.held;
  }

  /**
   * Binds a parameter and its gradient. Steps update the parameter in place. Both buffers stay bound until other
   * buffers are bound in their place.
   *
   * @param index index of the parameter in the plan.
   * @param param direct buffer of the parameter.
   * @param grad direct buffer of the gradient; null if there is no gradient.
   * @throws ShampooException.Invalid if a buffer does not match the plan; the message names the parameter.
   */
  public void bind(int index, Buffer param, Buffer grad) {
    bind(index, List.of(Binding.inPlace(param, grad)));
  }

  /**
   * Binds a parameter by name, like {@link #bind(int, Buffer, Buffer)}.
   *
   * @param name name of the parameter.
   * @param param direct buffer of the parameter.
   * @param grad direct buffer of the gradient; null if there is no gradient.
   * @throws ShampooException.Invalid if there is no such parameter, or a buffer does not match the plan.
   */
  public void bind(String name, Buffer param, Buffer grad) {
    Binding binding = Binding.inPlace(param, grad);
    handle.change(this, opt -> bound().bind(opt, bound().indexOf(name), List.of(binding)));
  }

  /**
   * Binds several consecutive parameters of the plan. If one of the bindings is wrong, nothing is bound.
   *
   * @param first index of the first parameter.
   * @param bindings memory of each parameter.
   * @throws ShampooException.Invalid if memory does not match the plan, is misaligned or overlaps other memory, or if
   *     steps with "output=updates" would overwrite the parameter; the message names the parameter.
   */
  public void bind(int first, List<Binding> bindings) {
    List<Binding> copy = List.copyOf(bindings);
    handle.change(this, opt -> bound().bind(opt, first, copy));
  }

  /**
   * Replaces the gradient of a parameter that has been bound.
   *
   * @param index index of the parameter in the plan.
   * @param grad direct buffer of the gradient, or null. With null, steps leave the parameter unchanged.
   * @throws ShampooException.Invalid if there is no such parameter, or the buffer does not match the plan.
   * @throws ShampooException.State if the parameter has not been bound.
   */
  public void bindGrad(int index, Buffer grad) {
    Memory memory = grad != null ? Memory.of(grad) : null;
    handle.change(this, opt -> bound().bindGrad(opt, index, memory));
  }

  /**
   * Binds memory from which each step reads a hyper-parameter. The value in memory overrides the value of {@link #set}.
   *
   * @param group number of the parameter group.
   * @param key "lr", "beta1", "weight_decay" or "gradient_scale". beta1 must be above 0 in the plan.
   * @param dtype type of the number, F32 or F64. Ignored if value is null.
   * @param value memory of one number. If value is null, later steps do not read memory. On the CPU, they use the
   *     number that was read last, until the key is set. On CUDA, they use the number that was set last.
   * @throws ShampooException.Invalid if there is no such group, or the key or dtype is not supported.
   */
  public void bindScalar(int group, String key, DType dtype, Memory value) {
    handle.change(this, opt -> bound().bindScalar(opt, group, key, dtype, value));
  }

  /**
   * Binds the arena from which steps read the state, and the arena to which steps write the state. An arena contains
   * the complete state, including the step counters. A copy of the bytes of an arena is a copy of the state.
   *
   * <p>An arena has plan.bytes("state") bytes and is aligned to 64 bytes. If both arguments are null, steps use the
   * optimizer's own arena again.
   *
   * @param in arena that steps read. It must contain the state of an optimizer with an equal plan.
   * @param out arena that steps write. It may be the arena {@code in}.
   * @throws ShampooException.Invalid if only one argument is null, an arena has the wrong size or alignment, or the two
   *     arenas partly overlap.
   */
  public void bindState(Memory in, Memory out) {
    handle.change(this, opt -> bound().bindState(opt, in, out));
  }

  /**
   * Runs one step of all groups: reads the gradients, and updates the parameters and the state. With a single rank, a
   * step that fails changes nothing. With several ranks, all ranks must call this method; docs/many_ranks.md describes
   * failures.
   *
   * @throws ShampooException.State if a parameter has not been bound; the message names it.
   * @throws ShampooException.Numeric if a gradient is not finite, or a state would overflow; the message names the
   *     parameter.
   * @throws ShampooException.Invalid if a bound scalar is out of range, a key has different values on different
   *     ranks, or a gradient is missing on some ranks only.
   * @throws ShampooException.Collective if an exchange failed, in this step or an earlier one.
   */
  public void step() {
    step(0);
  }

  /**
   * Runs one step. On CUDA, the step is enqueued on a stream.
   *
   * @param stream the cudaStream_t, as an integer. 0 is the legacy default stream. On the CPU, stream must be 0.
   * @throws ShampooException as in {@link #step()}. By default, a later call throws the errors that the device
   *     detects (key "status_lag").
   */
  public void step(long stream) {
    exchange(opt -> Raw.shampoo_optimizer_step(opt, stream));
  }

  /**
   * Writes averages of the parameters to other memory, for evaluation and for use after training. The keys "averaging"
   * and "weight_ema" select the average. If the group of a parameter has no average, the parameter is copied. The
   * parameters and the state do not change. With several ranks, all ranks must call this method.
   *
   * @param blend a number in [0, 1]: the result is (1 - blend) * parameter + blend * average.
   * @param weights one element for each parameter, in the order of the plan: memory for the result, or null to skip the
   *     parameter. The memory has the type that {@link Param#outDtype} sets, and must not overlap the parameter.
   * @throws ShampooException.Invalid if blend is out of range, or memory does not match the plan or overlaps the
   *     parameter.
   * @throws ShampooException.State if a parameter has not been bound, or another rank calls step() instead.
   * @throws ShampooException.Collective if an exchange failed, in this call or an earlier one.
   */
  public void export(double blend, List<Memory> weights) {
    List<Memory> copy = new ArrayList<>(weights);
    exchange(opt -> bound().export(opt, blend, copy));
  }

  /**
   * Throws the error of a step on CUDA if no earlier call has thrown this error. If there are several such errors,
   * throws the first. Does nothing on the CPU. With several ranks, all ranks must call this method.
   *
   * @param wait whether to wait until all steps that were enqueued have finished.
   * @throws ShampooException as in {@link #step()}. {@link ShampooException#step} is the number of the step that
   *     failed.
   */
  public void status(boolean wait) {
    exchange(opt -> Raw.shampoo_optimizer_status(opt, wait ? 1 : 0, null));
  }

  /**
   * Changes a hyper-parameter of a group, starting with the next step.
   *
   * @param group number of the parameter group.
   * @param key a key for which {@link Key#changeable} is true, such as "lr" or "weight_decay".
   * @param value a number in the range of the key.
   * @throws ShampooException.Invalid if there is no such group or key, the key cannot be changed, or the value is out
   *     of range.
   * @throws ShampooException.State if the key is beta1 or momentum, and its value in the plan is 0: the optimizer then
   *     has no state for the key.
   */
  public void set(int group, String key, double value) {
    handle.change(this, opt -> Raw.shampoo_optimizer_set(opt, group, key, value));
  }

  /**
   * Changes the learning rate of all groups, starting with the next step. On failure, no group changes.
   *
   * @param value the learning rate, at least 0.
   * @throws ShampooException.Invalid if the value is negative, not finite, or too large for the computation dtype of a
   *     group.
   */
  public void setLr(double value) {
    handle.change(
        this,
        opt -> {
          double[] before = new double[groups];
          for (int group = 0; group < groups; ++group) {
            before[group] = get(opt, group, "lr");
          }
          for (int group = 0; group < groups; ++group) {
            try {
              Raw.shampoo_optimizer_set(opt, group, "lr", value);
            } catch (ShampooException error) {
              while (--group >= 0) {
                Raw.shampoo_optimizer_set(opt, group, "lr", before[group]);
              }
              throw error;
            }
          }
        });
  }

  /**
   * Returns the learning rate of group 0. For another group, use {@link #get}.
   *
   * @return the learning rate.
   */
  public double lr() {
    return get(0, "lr");
  }

  /**
   * Returns the value of a hyper-parameter of a group.
   *
   * @param group number of the parameter group.
   * @param key a key of type "f64", "i64" or "bool".
   * @return the value or, if the value is "auto", the number that the library uses instead. A "bool" is 0 or 1.
   * @throws ShampooException.Invalid if there is no such group or key, or the value is not a single number.
   */
  public double get(int group, String key) {
    return handle.changeAndGet(this, opt -> get(opt, group, key));
  }

  private static double get(long opt, int group, String key) {
    double[] value = new double[1];
    Raw.shampoo_optimizer_get(opt, group, key, value);
    return value[0];
  }

  /**
   * Returns the value of a counter. Most counters start at 0 when the optimizer is created.
   *
   * @param key "steps", "skipped_steps", "root_computed", ...; the C header lists all counters.
   * @return the value.
   * @throws ShampooException.Invalid if there is no such counter.
   */
  public double stat(String key) {
    return handle.changeAndGet(
        this,
        opt -> {
          double[] value = new double[1];
          Raw.shampoo_optimizer_stat(opt, key, value);
          return value[0];
        });
  }

  /**
   * Returns the error message of the last failed call on this optimizer, on any thread. Messages of calls that only
   * read, such as {@link #get}, are not stored.
   *
   * @return the message, or "" if no call has failed.
   */
  public String error() {
    return handle.changeAndGet(this, Raw::shampoo_optimizer_error);
  }

  /**
   * Returns the entries of the state: a description of each array that the optimizer keeps between steps.
   *
   * @return the entries, in an order that depends only on the plan.
   */
  public List<StateEntry> stateEntries() {
    return handle.changeAndGet(this, Optimizer::entries);
  }

  private static List<StateEntry> entries(long opt) {
    long[] count = new long[1];
    Raw.shampoo_state_count(opt, count);
    try (shampoo_state_entry raw = new shampoo_state_entry()) {
      return LongStream.range(0, count[0]).mapToObj(index -> entry(opt, index, raw)).toList();
    }
  }

  private static StateEntry entry(long opt, long index, shampoo_state_entry raw) {
    Raw.shampoo_state_describe(opt, index, raw);
    return new StateEntry(
        index, raw.getKey(), Plan.toList(raw.getShape(), raw.getNdim()), DType.of(raw.getDtype()), raw.getFlat_offset(),
        raw.getStored_bytes(), raw.getSymmetric() == 1, raw.getOwner(), raw.getShard_owner(), raw.getOf_shard() == 1);
  }

  /**
   * Copies an entry of the state into a new direct buffer, in the native byte order.
   *
   * @param entry an entry of this optimizer with at most 2^31 - 1 bytes.
   * @return the elements, dense and row-major. Both triangles of a symmetric matrix are copied.
   * @throws ShampooException.Invalid if there is no such entry, or the entry is too large.
   */
  public ByteBuffer readState(StateEntry entry) {
    long bytes = entry.elements() * entry.dtype().bytes();
    if (bytes > Integer.MAX_VALUE) {
      throw new ShampooException.Invalid(
          "state \"" + entry.key() + "\": " + bytes + " bytes, but a ByteBuffer holds at most " + Integer.MAX_VALUE
              + " bytes; read parts of the state with readState(entry, first, count, ...)");
    }
    ByteBuffer buffer = ByteBuffer.allocateDirect((int) bytes).order(ByteOrder.nativeOrder());
    readState(entry, 0, entry.elements(), Memory.of(buffer), DeviceType.CPU, 0);
    return buffer;
  }

  /**
   * Copies elements of an entry of the state to memory.
   *
   * @param entry an entry of this optimizer.
   * @param first index of the first element.
   * @param count number of elements.
   * @param to receives the elements, without gaps.
   * @param where type of the device that has the memory.
   * @param stream CUDA stream of the copy; 0 on the CPU.
   * @throws ShampooException.Invalid if there is no such entry or element, or the memory has the wrong type or size.
   */
  public void readState(StateEntry entry, long first, long count, Memory to, DeviceType where, long stream) {
    checkElements(entry, count, to, where, true);
    try {
      handle.change(
          this,
          opt -> Raw.shampoo_state_read(opt, entry.index(), first, count, to.address(), to.bytes(), where.code, stream));
    } finally {
      Reference.reachabilityFence(to);
    }
  }

  /**
   * Replaces all elements of an entry of the state.
   *
   * @param entry an entry of this optimizer.
   * @param from a direct buffer with as many elements as the entry.
   * @throws ShampooException.Invalid if there is no such entry, or the buffer has the wrong type or size.
   */
  public void writeState(StateEntry entry, Buffer from) {
    writeState(entry, 0, entry.elements(), Memory.of(from), DeviceType.CPU, 0);
  }

  /**
   * Copies elements from memory into an entry of the state.
   *
   * @param entry an entry of this optimizer.
   * @param first index of the first element.
   * @param count number of elements.
   * @param from contains the elements, without gaps.
   * @param where type of the device that has the memory.
   * @param stream CUDA stream of the copy; 0 on the CPU.
   * @throws ShampooException.Invalid if there is no such entry or element, or the memory has the wrong type or size.
   */
  public void writeState(StateEntry entry, long first, long count, Memory from, DeviceType where, long stream) {
    checkElements(entry, count, from, where, false);
    try {
      handle.change(
          this,
          opt -> Raw.shampoo_state_write(opt, entry.index(), first, count, from.address(), from.bytes(), where.code, stream));
    } finally {
      Reference.reachabilityFence(from);
    }
  }

  private static void checkElements(StateEntry entry, long count, Memory memory, DeviceType where, boolean written) {
    memory.check("memory for state \"" + entry.key() + "\"", entry.dtype(), count, where, written);
  }

  /**
   * Saves the state of this optimizer as a checkpoint. For several ranks or optimizers, use {@link Shampoo#save}.
   *
   * @param directory directory of the checkpoints, created if it does not exist. A successful save removes old
   *     checkpoints from it; the key "checkpoint_keep" is the number of checkpoints that remain.
   * @throws ShampooException.Files if a file could not be written; the message names the file and the reason.
   */
  public void save(Path directory) {
    Shampoo.save(List.of(this), directory, null, 0);
  }

  /**
   * Loads the last checkpoint of a directory into this optimizer. For several ranks or optimizers, use
   * {@link Shampoo#load}.
   *
   * @param directory directory in which checkpoints were saved.
   * @throws ShampooException.Files if there is no checkpoint, or a file is missing or damaged. The state does not
   *     change, unless the load fails after it has begun to write states (docs/checkpoints.md).
   * @throws ShampooException.Invalid if the checkpoint does not match the optimizer, for example in parameters,
   *     dtypes, method, grafting or blocks.
   */
  public void load(Path directory) {
    Shampoo.load(List.of(this), directory, null, 0);
  }

  /**
   * Frees the memory and threads of the optimizer, and releases bound memory. If a call runs on another thread, this
   * method waits until that call has returned. Closing a second time has no effect.
   *
   * @throws ShampooException.State if a callback of this optimizer, such as a method of a communicator, calls close().
   */
  @Override
  public void close() {
    handle.closeWaiting();
  }
}
