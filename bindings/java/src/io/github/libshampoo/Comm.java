// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;

/**
 * A communicator that calls Java methods, NCCL or C functions. Optimizers keep their own references to the
 * communicator, so a Comm can be closed after the optimizers have been created.
 *
 * <p>Only one call at a time can use a communicator, even if several optimizers share it. During that call, all other
 * calls that need the communicator throw {@link ShampooException.State}, on any thread. This includes calls that a
 * method of the {@link Communicator} makes.
 */
public final class Comm implements AutoCloseable {
  final Handle handle;

  /** Prevents concurrent calls, which would mix their exchanges and share the communicator's buffers. */
  private final AtomicBoolean inUse = new AtomicBoolean();

  private Comm(long address) {
    handle = new Handle(this, "communicator", address, Raw::shampoo_comm_destroy);
  }

  /**
   * Creates a communicator that calls Java methods.
   *
   * @param communicator the implementation, which is used until its {@code release()} is called.
   * @return the communicator. Close it.
   * @throws ShampooException.Invalid if rank() or world() returns a number that is out of range.
   */
  public static Comm of(Communicator communicator) {
    long[] out = new long[1];
    Raw.shampoo_comm_from_ops(out, new CommCalls(communicator));
    return new Comm(out[0]);
  }

  /**
   * Creates a communicator that uses the copy of NCCL that the process has loaded.
   *
   * @param address address of the ncclComm_t. The ncclComm_t must exist until this Comm and all optimizers that use
   *     this Comm have been destroyed.
   * @param library file from which NCCL was loaded, or its soname; null means libnccl.so.2.
   * @return the communicator. Close it.
   * @throws ShampooException.Invalid if the address is 0, or NCCL reports an error for this ncclComm_t.
   * @throws ShampooException.State if the process has not loaded NCCL from this file.
   * @throws ShampooException.Unsupported if the loaded NCCL lacks a function of NCCL 2.
   */
  public static Comm ofNccl(long address, String library) {
    long[] out = new long[1];
    Raw.shampoo_comm_from_nccl(out, address, library);
    return new Comm(out[0]);
  }

  /**
   * Creates a communicator that calls C functions, such as those of shampoo_mpi_ops().
   *
   * @param address address of a shampoo_comm_ops struct, which is copied. The object to which the field {@code user} of
   *     the struct points must exist until the library calls the function {@code release} of the struct.
   * @return the communicator. Close it.
   * @throws ShampooException.Invalid if the address is 0, or a field has a wrong value.
   */
  public static Comm ofAddress(long address) {
    return new Comm(Raw.commFromAddress(address));
  }

  /** Runs a call that uses all communicators in a list, which may have duplicates. Throws if one of them is in use. */
  static <T> T using(List<Comm> comms, Supplier<T> call) {
    List<Comm> entered = new ArrayList<>();
    try {
      for (Comm comm : new LinkedHashSet<>(comms)) {
        if (!comm.inUse.compareAndSet(false, true)) {
          throw new ShampooException.State(
              "the communicator is in use by another call, of this or another optimizer; make the calls one after "
                  + "another, in the same order on all ranks, or use a separate communicator for each optimizer");
        }
        entered.add(comm);
      }
      return call.get();
    } finally {
      entered.forEach(comm -> comm.inUse.set(false));
    }
  }

  /** Releases the reference to the communicator that this object holds. A second call has no effect. */
  @Override
  public void close() {
    handle.closeUnused();
  }
}
