// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.OptionalLong;

/**
 * What a call of the library failed with: one class for each status. The text tells which argument or key was wrong, its
 * value, what was expected and what to do. A call that fails changes nothing, unless its text says so.
 */
public class ShampooException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** The number of the status. */
  private final int status;

  /** Of a step that was refused, or -1. */
  private final long step;

  ShampooException(int status, String text, Throwable cause, long step) {
    super(text, cause);
    this.status = status;
    this.step = step;
  }

  /**
   * The status, as in the header of the library: 1 is SHAMPOO_E_INVALID.
   *
   * @return a number above 0.
   */
  public int status() {
    return status;
  }

  /**
   * Which step on CUDA was refused, where {@link Optimizer#status} has told of it.
   *
   * @return the number of the step, from 1 on; empty with all other failures.
   */
  public OptionalLong step() {
    return step > 0 ? OptionalLong.of(step) : OptionalLong.empty();
  }

  /** An argument or a value of a key is wrong: fix the call. */
  public static final class Invalid extends ShampooException {
    private static final long serialVersionUID = 1;

    Invalid(String text) {
      this(text, null, -1);
    }

    Invalid(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_INVALID, text, cause, step);
    }
  }

  /** The call is right and the moment is wrong: a step before bind, a call after close, or one during another. */
  public static final class State extends ShampooException {
    private static final long serialVersionUID = 1;

    State(String text) {
      this(text, null, -1);
    }

    State(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_STATE, text, cause, step);
    }
  }

  /** Another version, build or machine may do it: not the one that runs. */
  public static final class Unsupported extends ShampooException {
    private static final long serialVersionUID = 1;

    Unsupported(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_UNSUPPORTED, text, cause, step);
    }
  }

  /** Memory or another resource of the system ran out: free some, or ask for less. */
  public static final class OutOfMemory extends ShampooException {
    private static final long serialVersionUID = 1;

    OutOfMemory(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_NOMEM, text, cause, step);
    }
  }

  /** NaN or infinity was met; the step has changed nothing, and training may go on. */
  public static final class Numeric extends ShampooException {
    private static final long serialVersionUID = 1;

    Numeric(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_NUMERIC, text, cause, step);
    }
  }

  /** A collective failed: tear the job down. The cause is what a {@link Communicator} has thrown. */
  public static final class Collective extends ShampooException {
    private static final long serialVersionUID = 1;

    Collective(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_COMM, text, cause, step);
    }
  }

  /** A GPU or its runtime failed: end the process. */
  public static final class Device extends ShampooException {
    private static final long serialVersionUID = 1;

    Device(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_DEVICE, text, cause, step);
    }
  }

  /** A file is missing, unreadable or damaged, or the disk is full. */
  public static final class Files extends ShampooException {
    private static final long serialVersionUID = 1;

    Files(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_IO, text, cause, step);
    }
  }

  /** A bug of the library: please report it, with this text and {@link Shampoo#buildInfo}. */
  public static final class Internal extends ShampooException {
    private static final long serialVersionUID = 1;

    Internal(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_INTERNAL, text, cause, step);
    }
  }

  /** Makes the exception of a failed call; native code calls it. */
  static ShampooException of(int status, byte[] bytes, Throwable cause, long step) {
    String told = Text.fromBytes(bytes);
    String text = cause == null ? told : told + ": " + cause;
    return switch (status) {
      case RawConstants.SHAMPOO_E_INVALID -> new Invalid(text, cause, step);
      case RawConstants.SHAMPOO_E_STATE -> new State(text, cause, step);
      case RawConstants.SHAMPOO_E_UNSUPPORTED -> new Unsupported(text, cause, step);
      case RawConstants.SHAMPOO_E_NOMEM -> new OutOfMemory(text, cause, step);
      case RawConstants.SHAMPOO_E_NUMERIC -> new Numeric(text, cause, step);
      case RawConstants.SHAMPOO_E_COMM -> new Collective(text, cause, step);
      case RawConstants.SHAMPOO_E_DEVICE -> new Device(text, cause, step);
      case RawConstants.SHAMPOO_E_IO -> new Files(text, cause, step);
      case RawConstants.SHAMPOO_E_INTERNAL -> new Internal(text, cause, step);
      default -> new ShampooException(status, "status " + status + ": " + text, cause, step);
    };
  }
}
