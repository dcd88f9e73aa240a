// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.OptionalLong;

/**
 * An error of the library, with a subclass for each status. The message names the argument or key that is wrong, its
 * value and the expected values, and explains the remedy. A call that fails changes nothing, unless its documentation
 * says otherwise.
 */
public class ShampooException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** The status code. */
  private final int status;

  /** Number of the step that failed, or -1. */
  private final long step;

  ShampooException(int status, String text, Throwable cause, long step) {
    super(text, cause);
    this.status = status;
    this.step = step;
  }

  /**
   * Returns the status code of the C header, for example 1 for SHAMPOO_E_INVALID.
   *
   * @return the status code, which is above 0.
   */
  public int status() {
    return status;
  }

  /**
   * Returns the number of the step on CUDA whose failure {@link Optimizer#status} reported with this exception.
   *
   * @return the number of the step, at least 1; empty for all other errors.
   */
  public OptionalLong step() {
    return step > 0 ? OptionalLong.of(step) : OptionalLong.empty();
  }

  /** An argument or the value of a key is wrong. */
  public static final class Invalid extends ShampooException {
    private static final long serialVersionUID = 1;

    Invalid(String text) {
      this(text, null, -1);
    }

    Invalid(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_INVALID, text, cause, step);
    }
  }

  /** The call is not possible in the current state, such as a step before bind or a call after close. */
  public static final class State extends ShampooException {
    private static final long serialVersionUID = 1;

    State(String text) {
      this(text, null, -1);
    }

    State(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_STATE, text, cause, step);
    }
  }

  /** The call is not supported by this version, build or machine. */
  public static final class Unsupported extends ShampooException {
    private static final long serialVersionUID = 1;

    Unsupported(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_UNSUPPORTED, text, cause, step);
    }
  }

  /** Memory or another resource of the system ran out. */
  public static final class OutOfMemory extends ShampooException {
    private static final long serialVersionUID = 1;

    OutOfMemory(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_NOMEM, text, cause, step);
    }
  }

  /** A call, such as a step, found NaN or infinity. The call changed no parameter, and training can continue. */
  public static final class Numeric extends ShampooException {
    private static final long serialVersionUID = 1;

    Numeric(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_NUMERIC, text, cause, step);
    }
  }

  /**
   * A collective failed, and the job must be restarted. If a communicator threw an exception, {@link #getCause} returns
   * that exception.
   */
  public static final class Collective extends ShampooException {
    private static final long serialVersionUID = 1;

    Collective(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_COMM, text, cause, step);
    }
  }

  /** A GPU or its runtime failed, and the process must be restarted. */
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

  /** A bug in the library. Please report it with the message of the exception and {@link Shampoo#buildInfo}. */
  public static final class Internal extends ShampooException {
    private static final long serialVersionUID = 1;

    Internal(String text, Throwable cause, long step) {
      super(RawConstants.SHAMPOO_E_INTERNAL, text, cause, step);
    }
  }

  /** Returns the exception for a failed call. Native code calls this method. */
  static ShampooException of(int status, byte[] bytes, Throwable cause, long step) {
    String message = Text.fromBytes(bytes);
    String text = cause == null ? message : message + ": " + cause;
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
