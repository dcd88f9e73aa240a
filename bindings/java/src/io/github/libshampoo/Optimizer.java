// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.lang.ref.Reference;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/**
 * State and the machinery that steps it. Memory that is bound is read and written in place, and kept alive until other
 * memory is bound or the optimizer is closed.
 *
 * <p>One optimizer is used by one thread at a time, not always the same one: a call during another is refused with {@link
 * ShampooException.State}. Only {@link #close} waits for the call of another thread. Different optimizers work on different
 * threads at once. What is not closed ends when nobody has it any more, at a time of the collector's choosing.
 */
public final class Optimizer implements AutoCloseable {
  final Handle handle;
  final List<Comm> comms;
  private final DeviceType device;
  private final int groups;

  /**
   * Makes an optimizer on one rank, and initialises its state.
   *
   * @param plan finished.
   * @throws ShampooException.State the plan is not finished.
   * @throws ShampooException.OutOfMemory memory or threads ran out; the text tells how much.
   */
  public Optimizer(Plan plan) {
    this(plan, new OptimizerOptions());
  }

  /**
   * Makes an optimizer, and initialises its state. Collective where there is a communicator: plans are compared over its
   * ranks, and where one differs or fails, all fail.
   *
   * @param plan finished, the same on all ranks.
   * @param options communicators, memory, device.
   * @throws ShampooException.Invalid memory of the state is of another size or misaligned, a communicator has another world
   *     or rank than the plan, or plans differ.
   * @throws ShampooException.State the plan is not finished.
   * @throws ShampooException.Unsupported CUDA cannot be used here.
   * @throws ShampooException.Collective an exchange failed.
   * @throws ShampooException.OutOfMemory memory or threads ran out; the text tells how much.
   */
  public Optimizer(Plan plan, OptimizerOptions options) {
    device = plan.device;
    groups = plan.groups();
    Comm replicas = options.replicas != null ? Comm.of(options.replicas) : options.replicaComm;
    Comm shards = null;
    try {
      shards = options.shards != null ? Comm.of(options.shards) : options.shardComm;
      comms = Stream.of(replicas, shards).filter(Objects::nonNull).toList();
      Comm[] made = {replicas, shards};
      long address = Comm.using(comms, () -> create(plan, options, made[0], made[1]));
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

  /** A call in which ranks may exchange. */
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
   * Binds a parameter that is stepped in place, until it is bound anew.
   *
   * @param index of the parameter in the plan.
   * @param param direct buffer of the parameter.
   * @param grad direct buffer of its gradient; null: it has none.
   * @throws ShampooException.Invalid a buffer is not as the plan says; the text names the parameter.
   */
  public void bind(int index, Buffer param, Buffer grad) {
    bind(index, List.of(Binding.inPlace(param, grad)));
  }

  /**
   * The same by the name of the parameter.
   *
   * @param name of the parameter.
   * @param param direct buffer of the parameter.
   * @param grad direct buffer of its gradient; null: it has none.
   * @throws ShampooException.Invalid there is no such parameter, or as of {@link #bind(int, Buffer, Buffer)}.
   */
  public void bind(String name, Buffer param, Buffer grad) {
    Binding binding = Binding.inPlace(param, grad);
    handle.change(this, opt -> bound().bind(opt, bound().indexOf(name), List.of(binding)));
  }

  /**
   * Binds parameters first, first + 1, ...: all or, on failure, none.
   *
   * @param first index of the first parameter.
   * @param bindings memory of each.
   * @throws ShampooException.Invalid memory is not as the plan says, misaligned, or overlaps, or updates would take the place
   *     of the parameter; the text names it.
   */
  public void bind(int first, List<Binding> bindings) {
    List<Binding> given = List.copyOf(bindings);
    handle.change(this, opt -> bound().bind(opt, first, given));
  }

  /**
   * Gives a bound parameter another gradient.
   *
   * @param index of the parameter in the plan.
   * @param grad direct buffer; null: no gradient, and the parameter and its state stay as they are.
   * @throws ShampooException.Invalid there is no such parameter, or as of {@link #bind(int, Buffer, Buffer)}.
   * @throws ShampooException.State the parameter was never bound.
   */
  public void bindGrad(int index, Buffer grad) {
    Memory memory = grad != null ? Memory.of(grad) : null;
    handle.change(this, opt -> bound().bindGrad(opt, index, memory));
  }

  /**
   * Has every step read a hyper-parameter from memory when it begins; that comes before {@link #set}.
   *
   * @param group number of the parameter group.
   * @param key "lr" or "gradient_scale".
   * @param dtype of the number: F32 or F64; not looked at where value is null.
   * @param value one number; null: the value read last stays in force, until it is set.
   * @throws ShampooException.Invalid there is no such group, or the key or dtype is another.
   */
  public void bindScalar(int group, String key, DType dtype, Memory value) {
    handle.change(this, opt -> bound().bindScalar(opt, group, key, dtype, value));
  }

  /**
   * Steps from one arena of state into another. All state, the step counters included, lies in one arena: a copy of its
   * bytes keeps it.
   *
   * @param in read by steps; the bytes of an optimizer of an equal plan.
   * @param out written by steps; may be in. Both are of plan.bytes("state") bytes and aligned to 64. Both null: back to
   *     the arena that the optimizer was made with.
   * @throws ShampooException.Invalid one is null, of another size, misaligned, or they overlap in part.
   */
  public void bindState(Memory in, Memory out) {
    handle.change(this, opt -> bound().bindState(opt, in, out));
  }

  /**
   * One step of all groups: reads what is bound, and writes the new parameters and the new state. A step that fails has
   * changed neither (docs/many_ranks.md tells of what several ranks add). Collective where there are several ranks.
   *
   * @throws ShampooException.State a parameter has never been bound; the text names it.
   * @throws ShampooException.Numeric a gradient is not finite, or a state would overflow: the text names the parameter.
   * @throws ShampooException.Invalid a bound scalar is out of range, or ranks differ.
   * @throws ShampooException.Collective an exchange failed, in this step or an earlier one.
   */
  public void step() {
    step(0);
  }

  /**
   * The same on CUDA, where the step is put into a stream.
   *
   * @param stream address of the cudaStream_t; 0 is the legacy default stream, and the only one on the CPU.
   * @throws ShampooException as of {@link #step()}; what the device finds is told by the next call.
   */
  public void step(long stream) {
    exchange(opt -> Raw.shampoo_optimizer_step(opt, stream));
  }

  /**
   * Asks what steps on CUDA have found since it was told last; on the CPU there is never anything. Collective.
   *
   * @param wait whether to wait until all steps so far are done.
   * @throws ShampooException as of {@link #step()}; its step is the number of the one that was refused.
   */
  public void status(boolean wait) {
    exchange(opt -> Raw.shampoo_optimizer_status(opt, wait ? 1 : 0, null));
  }

  /**
   * Changes a hyper-parameter of a group from the next step on.
   *
   * @param group number of the parameter group.
   * @param key one that {@link Key#changeable} says can be changed: "lr", "weight_decay", ...
   * @param value within the range of the key.
   * @throws ShampooException.Invalid there is no such group or key, it is fixed, or the value is out of range.
   * @throws ShampooException.State beta1 or momentum is 0 in the plan, and so has no state.
   */
  public void set(int group, String key, double value) {
    handle.change(this, opt -> Raw.shampoo_optimizer_set(opt, group, key, value));
  }

  /**
   * Changes the learning rate of all groups from the next step on: of all or, on failure, of none.
   *
   * @param value the learning rate, at least 0.
   * @throws ShampooException.Invalid the value is negative or not finite, or too large for the arithmetic of a group.
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
   * Value of a hyper-parameter of a group.
   *
   * @param group number of the parameter group.
   * @param key one of type "f64", "i64" or "bool" (0 or 1).
   * @return the value; "auto" is worked out.
   * @throws ShampooException.Invalid there is no such group or key, or it has no number to give.
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
   * A counter since the optimizer was made.
   *
   * @param key "steps", "skipped_steps", "root_computed", ...: the header of the library lists them.
   * @return the number.
   * @throws ShampooException.Invalid there is no such key.
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
   * Text of the last failure of a call that may change this optimizer, whatever the thread.
   *
   * @return the text; "" where none has failed.
   */
  public String error() {
    return handle.changeAndGet(this, Raw::shampoo_optimizer_error);
  }

  /**
   * The entries of the state, by name.
   *
   * @return in an order that depends on the plan alone.
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
        index, raw.getKey(), Plan.listed(raw.getShape(), raw.getNdim()), DType.of(raw.getDtype()), raw.getFlat_offset(),
        raw.getStored_bytes(), raw.getSymmetric() == 1, raw.getOwner(), raw.getShard_owner(), raw.getOf_shard() == 1);
  }

  /**
   * Copies an entry of the state into a new direct buffer, in the native byte order.
   *
   * @param entry of this optimizer, of at most 2^31 - 1 bytes.
   * @return its elements, dense and row-major; a symmetric one in full.
   * @throws ShampooException.Invalid there is no such entry, or it is larger.
   */
  public ByteBuffer readState(StateEntry entry) {
    long bytes = entry.elements() * entry.dtype().bytes();
    if (bytes > Integer.MAX_VALUE) {
      throw new ShampooException.Invalid(
          "state \"" + entry.key() + "\": " + bytes + " bytes, and a ByteBuffer holds " + Integer.MAX_VALUE
              + ": read a part of it at a time: readState(entry, first, count, ...)");
    }
    ByteBuffer buffer = ByteBuffer.allocateDirect((int) bytes).order(ByteOrder.nativeOrder());
    readState(entry, 0, entry.elements(), Memory.of(buffer), DeviceType.CPU, 0);
    return buffer;
  }

  /**
   * Copies elements of an entry out of the state.
   *
   * @param entry of this optimizer.
   * @param first first element.
   * @param count number of elements.
   * @param to receives them, dense.
   * @param where memory of what device that is.
   * @param stream on CUDA that in whose order it is copied; otherwise 0.
   * @throws ShampooException.Invalid there is no such entry or element, or the memory is of another type or too small.
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
   * Copies a whole entry into the state.
   *
   * @param entry of this optimizer.
   * @param from a direct buffer with as many elements as the entry.
   * @throws ShampooException.Invalid there is no such entry, or the buffer is of another type or size.
   */
  public void writeState(StateEntry entry, Buffer from) {
    writeState(entry, 0, entry.elements(), Memory.of(from), DeviceType.CPU, 0);
  }

  /**
   * Copies elements into an entry of the state.
   *
   * @param entry of this optimizer.
   * @param first first element.
   * @param count number of elements.
   * @param from holds them, dense.
   * @param where memory of what device that is.
   * @param stream on CUDA that in whose order it is copied; otherwise 0.
   * @throws ShampooException.Invalid there is no such entry or element, or the memory is of another type or size.
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
    memory.check("state \"" + entry.key() + "\"", entry.dtype(), count, where, written);
  }

  /**
   * Saves the state of one rank as a checkpoint; {@link Shampoo#save} is for several ranks and optimizers.
   *
   * @param directory it keeps the last checkpoints.
   * @throws ShampooException.Files a file could not be written; the text names it and the reason.
   */
  public void save(Path directory) {
    Shampoo.save(List.of(this), directory, null, 0);
  }

  /**
   * Loads the last checkpoint of a directory, of one rank; {@link Shampoo#load} is for several ranks and optimizers.
   *
   * @param directory that checkpoints were saved into.
   * @throws ShampooException.Files there is no checkpoint, or a file is damaged. The state is as it was.
   * @throws ShampooException.Invalid it is of other parameters, dtypes, grafting or blocks.
   */
  public void load(Path directory) {
    Shampoo.load(List.of(this), directory, null, 0);
  }

  /**
   * Ends the optimizer: its memory and threads are freed, and bound memory is let go. It waits for a call of another
   * thread, and can be called again.
   *
   * @throws ShampooException.State it was called by what a call of this optimizer has called, such as a communicator.
   */
  @Override
  public void close() {
    handle.closeWaiting();
  }
}
