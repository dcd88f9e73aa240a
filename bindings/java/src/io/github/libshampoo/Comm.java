// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;

/**
 * A communicator as the library holds it: of functions in Java, of NCCL, or of functions in C. Optimizers hold it by
 * themselves: it may be closed once they are made.
 *
 * <p>One call at a time uses it: of optimizers that share one, a call during that of another, on another thread or by the
 * communicator itself, is refused with {@link ShampooException.State}.
 */
public final class Comm implements AutoCloseable {
  final Handle handle;

  /** Two calls at once would mix their exchanges, for some of which the library has memory in the communicator. */
  private final AtomicBoolean inUse = new AtomicBoolean();

  private Comm(long address) {
    handle = new Handle(this, "communicator", address, Raw::shampoo_comm_destroy);
  }

  /**
   * A communicator of functions in Java.
   *
   * @param communicator called until its release.
   * @return it, to be closed.
   * @throws ShampooException.Invalid its rank is not below its world.
   */
  public static Comm of(Communicator communicator) {
    long[] out = new long[1];
    Raw.shampoo_comm_from_ops(out, new CommCalls(communicator));
    return new Comm(out[0]);
  }

  /**
   * A communicator of NCCL, through the copy of NCCL that the process has loaded.
   *
   * @param address of the ncclComm_t, which must live as long as optimizers that were made with it.
   * @param library the file from which NCCL was loaded, or its soname; null: libnccl.so.2.
   * @return it, to be closed.
   * @throws ShampooException.Invalid the address is 0, or NCCL refuses it.
   * @throws ShampooException.State the process has not loaded NCCL by this name.
   * @throws ShampooException.Unsupported what was found lacks a function of NCCL 2.
   */
  public static Comm ofNccl(long address, String library) {
    long[] out = new long[1];
    Raw.shampoo_comm_from_nccl(out, address, library);
    return new Comm(out[0]);
  }

  /**
   * A communicator of functions in C, such as shampoo_mpi_ops() fills.
   *
   * @param address of a shampoo_comm_ops, which is copied. What its user points to must live until its release is called.
   * @return it, to be closed.
   * @throws ShampooException.Invalid the address is 0, or a field has a wrong value.
   */
  public static Comm ofAddress(long address) {
    return new Comm(Raw.commFromAddress(address));
  }

  /** Makes a call that uses communicators, any of them more than once; where another call uses one it is refused. */
  static <T> T using(List<Comm> comms, Supplier<T> call) {
    List<Comm> begun = new ArrayList<>();
    try {
      for (Comm comm : new LinkedHashSet<>(comms)) {
        if (!comm.inUse.compareAndSet(false, true)) {
          throw new ShampooException.State(
              "the communicator is in use by another call, of this or another optimizer: have them make their calls one "
                  + "after another, in the same order on all ranks, or give each a communicator of its own");
        }
        begun.add(comm);
      }
      return call.get();
    } finally {
      begun.forEach(comm -> comm.inUse.set(false));
    }
  }

  /** Gives up this hold; optimizers keep theirs. It can be called again. */
  @Override
  public void close() {
    handle.closeUnused();
  }
}
