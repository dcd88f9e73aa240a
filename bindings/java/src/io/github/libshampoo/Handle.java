// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.Semaphore;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * Holds the address of an object of the library, and prevents concurrent calls that the library does not allow.
 *
 * <p>A public Java object, such as a Config, has a Handle. The Handle has no reference to the public object, so that
 * the cleaner can destroy the library's object when the public object is unreachable.
 *
 * <p>A call holds permits of a semaphore until it returns, and destroying the library's object needs all permits. If
 * close() runs during another call, close() therefore waits for that call or throws. A call also keeps the public
 * object reachable. Otherwise the cleaner could destroy the library's object before the call has acquired permits.
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

  /** Java objects that the library's object uses, such as bound buffers. Replacing a buffer needs all permits. */
  Object held;

  Handle(Object owner, String what, long address, LongConsumer destroy) {
    this.what = what;
    this.address = address;
    this.destroy = destroy;
    this.cleanable = CLEANER.register(owner, this);
  }

  /** Begins a call that may change the object, and returns the address. Throws while another call runs. */
  long enter() {
    return take(ALL);
  }

  /** Ends a call that {@link #enter} began. */
  void leave() {
    user = null;
    permits.release(ALL);
  }

  /** Runs a call that may change the object. */
  void change(Object owner, LongConsumer call) {
    changeAndGet(
        owner,
        taken -> {
          call.accept(taken);
          return null;
        });
  }

  /** Runs a call that may change the object, and returns its result. */
  <T> T changeAndGet(Object owner, LongFunction<T> call) {
    try {
      long taken = enter();
      try {
        return call.apply(taken);
      } finally {
        leave();
      }
    } finally {
      Reference.reachabilityFence(owner);
    }
  }

  /** Runs a call that only reads the object. Several such calls can run at the same time. */
  <T> T read(Object owner, LongFunction<T> call) {
    try {
      long taken = take(1);
      try {
        return call.apply(taken);
      } finally {
        permits.release();
      }
    } finally {
      Reference.reachabilityFence(owner);
    }
  }

  private long take(int count) {
    if (!permits.tryAcquire(count)) {
      throw new ShampooException.State(
          "the " + what + " is in use by another call; make the calls one after another");
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

  /** Destroys the object after calls of other threads have returned. Does nothing if it has been destroyed before. */
  void closeWaiting() {
    if (user == Thread.currentThread()) {
      throw new ShampooException.State(
          "the " + what + " cannot be closed in a callback of one of its own methods; close the " + what
              + " after that method has returned");
    }
    cleanable.clean();
  }

  /** Destroys the object. Throws while a call uses it. Does nothing if the object has been destroyed before. */
  void closeUnused() {
    if (!permits.tryAcquire(ALL)) {
      throw new ShampooException.State(
          "the " + what + " cannot be closed while another call uses it; close the " + what
              + " after that call has returned");
    }
    permits.release(ALL);
    cleanable.clean();
  }

  /** Destroys the object. The cleaner calls this method once: in close(), or when the owner is unreachable. */
  @Override
  public void run() {
    permits.acquireUninterruptibly(ALL);
    try {
      long destroyed = address;
      address = 0;
      destroy.accept(destroyed);
      held = null;
    } finally {
      permits.release(ALL);
    }
  }
}
