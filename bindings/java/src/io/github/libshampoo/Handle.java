// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.Semaphore;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * An object of the library: its address, and who may use it when. The Java object in front of it has a Handle and is not
 * known to it, so that the cleaner ends the handle of an object that nobody has any more.
 *
 * <p>A call holds permits until it is done, and the end of the object takes all permits: close() waits for a call, or is
 * refused. A call also keeps the Java object: one whose last call has only begun would otherwise be found closed by it.
 */
final class Handle implements Runnable {
  private static final Cleaner CLEANER = Cleaner.create();
  private static final int ALL = Integer.MAX_VALUE;

  private final String what;
  private final LongConsumer destroy;
  private final Semaphore permits = new Semaphore(ALL);
  private final Cleaner.Cleanable cleanable;
  private volatile Thread user;
  private long address;

  /** What must live as long as the object: buffers that it was given. Changed by who has all permits. */
  Object held;

  Handle(Object front, String what, long address, LongConsumer destroy) {
    this.what = what;
    this.address = address;
    this.destroy = destroy;
    this.cleanable = CLEANER.register(front, this);
  }

  /** Takes the object for one call that may change it; refused while another runs. */
  long enter() {
    return take(ALL);
  }

  void leave() {
    user = null;
    permits.release(ALL);
  }

  /** A call that may change the object. */
  void change(Object front, LongConsumer call) {
    changeAndGet(
        front,
        taken -> {
          call.accept(taken);
          return null;
        });
  }

  /** The same, with a result. */
  <T> T changeAndGet(Object front, LongFunction<T> call) {
    try {
      long taken = enter();
      try {
        return call.apply(taken);
      } finally {
        leave();
      }
    } finally {
      Reference.reachabilityFence(front);
    }
  }

  /** A call that only reads: any number at once. */
  <T> T read(Object front, LongFunction<T> call) {
    try {
      long taken = take(1);
      try {
        return call.apply(taken);
      } finally {
        permits.release();
      }
    } finally {
      Reference.reachabilityFence(front);
    }
  }

  private long take(int count) {
    if (!permits.tryAcquire(count)) {
      throw new ShampooException.State(
          "the " + what + " is in use by another call: one " + what + " is used by one thread at a time");
    }
    if (address == 0) {
      permits.release(count);
      throw new ShampooException.State("the " + what + " is closed");
    }
    if (count == ALL) {
      user = Thread.currentThread();
    }
    return address;
  }

  /** Ends the object once calls of other threads are done; it can be called again. */
  void closeWaiting() {
    if (user == Thread.currentThread()) {
      throw new ShampooException.State("the " + what + " cannot be closed by what its own call has called");
    }
    cleanable.clean();
  }

  /** Ends the object, and is refused while a call uses it; it can be called again. */
  void closeUnused() {
    if (!permits.tryAcquire(ALL)) {
      throw new ShampooException.State("the " + what + " cannot be closed while a call uses it");
    }
    permits.release(ALL);
    cleanable.clean();
  }

  /** What the cleaner does, and close: once. */
  @Override
  public void run() {
    permits.acquireUninterruptibly(ALL);
    try {
      long ended = address;
      address = 0;
      destroy.accept(ended);
      held = null;
    } finally {
      permits.release(ALL);
    }
  }
}
