// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.lang.ref.Reference;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.ShortBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Functions of the library: buffers, version, backends, log messages, keys, checkpoints and inverse roots. */
public final class Shampoo {
  private Shampoo() {}

  /**
   * Allocates a buffer for float32 parameters or gradients: direct, in the native byte order, filled with zeros, at an
   * address that is a multiple of 64.
   *
   * @param count number of elements.
   * @return the buffer, with position 0 and limit {@code count}.
   * @throws ShampooException.Invalid if count is negative, or the buffer would exceed 2 GiB.
   */
  public static FloatBuffer floats(long count) {
    return allocate("floats", count, 4).asFloatBuffer();
  }

  /**
   * Allocates a buffer for float64 parameters or gradients, like {@link #floats}.
   *
   * @param count number of elements.
   * @return the buffer.
   * @throws ShampooException.Invalid if count is negative, or the buffer would exceed 2 GiB.
   */
  public static DoubleBuffer doubles(long count) {
    return allocate("doubles", count, 8).asDoubleBuffer();
  }

  /**
   * Allocates a buffer for float16 or bfloat16 parameters or gradients, like {@link #floats}. Each short stores one
   * number.
   *
   * @param count number of elements.
   * @return the buffer.
   * @throws ShampooException.Invalid if count is negative, or the buffer would exceed 2 GiB.
   */
  public static ShortBuffer shorts(long count) {
    return allocate("shorts", count, 2).asShortBuffer();
  }

  /**
   * Allocates a buffer of bytes, like {@link #floats}: for elements of any type, or for the state of an optimizer.
   *
   * @param count number of bytes.
   * @return the buffer.
   * @throws ShampooException.Invalid if count is negative, or the buffer would exceed 2 GiB.
   */
  public static ByteBuffer bytes(long count) {
    return allocate("bytes", count, 1);
  }

  private static ByteBuffer allocate(String method, long count, int size) {
    int alignment = 64; // required for a state, and enough for elements of any type
    long largest = (Integer.MAX_VALUE - alignment + 1) / size;
    if (count < 0 || count > largest) {
      throw new ShampooException.Invalid(
          method + ": count is " + count + "; expected 0 to " + largest
              + ", because a buffer holds at most 2 GiB. Use Memory.of(address, bytes) for larger memory");
    }
    int bytes = (int) count * size;
    ByteBuffer all = ByteBuffer.allocateDirect(bytes + alignment - 1);
    int first = (alignment - all.alignmentOffset(0, alignment)) % alignment;
    return all.slice(first, bytes).order(ByteOrder.nativeOrder());
  }

  /**
   * Returns the version of the loaded library.
   *
   * @return the version, such as "0.1.0".
   */
  public static String version() {
    return Library.toText(Raw.shampoo_version());
  }

  /**
   * Describes the library, for logs and bug reports.
   *
   * @return a JSON object with the version, the compiler, the BLAS, the backends and the methods for inverse roots.
   */
  public static String buildInfo() {
    return Raw.shampoo_build_info();
  }

  /**
   * Returns the backends of the library. Loads the CUDA backend if it is installed, and queries the driver.
   *
   * @return the backends; the CPU is the first one.
   */
  public static List<Backend> backends() {
    List<Backend> found = new ArrayList<>();
    try (shampoo_backend_info info = new shampoo_backend_info()) {
      for (int index = 0; index < Raw.shampoo_backend_count(); ++index) {
        Raw.shampoo_backend_describe(index, info);
        found.add(new Backend(info.getName(), info.getUsable() == 1, info.getUnavailable_reason(), info.getDevice_count()));
      }
    }
    return List.copyOf(found);
  }

  /**
   * Loads the CUDA backend, once per process. A call is not necessary if libshampoo_cuda.so is in the folder of the
   * library or where the dynamic linker finds it.
   *
   * @param nameOrPath "cuda", or the path of the file of the backend.
   * @throws ShampooException.Unsupported if the backend or a library that it needs is missing, or the version of the
   *     backend differs from that of the library; the message explains the reason.
   * @throws ShampooException.State if the backend has been loaded from another file.
   */
  public static void loadBackend(String nameOrPath) {
    Raw.shampoo_backend_load(nameOrPath);
  }

  /**
   * Sets the receiver of all log messages in this process. Without a receiver, messages are discarded.
   *
   * @param callback receives messages; null removes the receiver.
   * @param leastSevere the least severe level that is delivered.
   */
  public static void setLog(LogCallback callback, LogLevel leastSevere) {
    Raw.shampoo_set_log(callback, leastSevere.ordinal());
  }

  /**
   * Returns the table of hyper-parameters with their documentation.
   *
   * @return all keys by name, in the order of docs/keys.md.
   */
  public static Map<String, Key> keys() {
    Map<String, Key> keys = new LinkedHashMap<>();
    try (shampoo_key_info info = new shampoo_key_info()) {
      for (int index = 0; index < Raw.shampoo_config_key_count(); ++index) {
        Raw.shampoo_config_describe_key(index, info);
        keys.put(
            info.getName(),
            new Key(
                info.getName(), info.getValue_type(), info.getDefault_value(), info.getRange(), info.getDoc(),
                info.getScope() == 1, info.getChangeable() == 1, info.getFor_replay() == 1));
      }
    }
    return Collections.unmodifiableMap(keys);
  }

  /**
   * Computes the inverse root of a symmetric matrix in the same way as a step: x = (a + e I)^(-exponent_multiplier *
   * rootDen / rootNum). If the key epsilon is above 0, e is epsilon or, with root_method=higher_order, epsilon times a
   * bound on the largest eigenvalue. Otherwise e is root_relative_epsilon times the mean eigenvalue of {@code a},
   * which is the trace divided by n.
   *
   * @param config config whose keys "epsilon", "exponent_multiplier", "row_sum_epsilon" and "root_..." are used.
   * @param n number of rows and of columns of the matrix, 1 to 32750.
   * @param dtype type of {@code a} and {@code x}: F32 or F64.
   * @param a direct buffer of n * n elements, row-major. Elements above the diagonal are not read.
   * @param x direct buffer of n * n elements, which receives the root. It may be the buffer {@code a}.
   * @param rootNum numerator of the degree of the root, at least 1. It is 4 for the inverse fourth root.
   * @param rootDen denominator of the degree, at least 1. It is 1 for the inverse fourth root.
   * @return how the root was computed.
   * @throws ShampooException.Invalid if an argument is out of range, or a buffer has the wrong size or type.
   * @throws ShampooException.Numeric if {@code a} contains NaN or infinity, or the root is not finite; x is unchanged.
   */
  public static RootInfo inverseRoot(Config config, int n, DType dtype, Buffer a, Buffer x, int rootNum, int rootDen) {
    Memory from = Memory.of(a);
    Memory to = Memory.of(x);
    from.check("a", dtype, (long) n * n, DeviceType.CPU, false);
    to.check("x", dtype, (long) n * n, DeviceType.CPU, true);
    try (shampoo_root_info info = new shampoo_root_info()) {
      config.handle.read(
          config,
          keys -> {
            Raw.shampoo_matrix_inverse_root(keys, n, dtype.code, from.address(), to.address(), rootNum, rootDen, info);
            return null;
          });
      return new RootInfo(
          info.getMethod(), info.getIterations(), info.getConverged(), info.getRetried(), info.getResidual());
    } finally {
      Reference.reachabilityFence(a);
      Reference.reachabilityFence(x);
    }
  }

  /**
   * Orthogonalizes a matrix, as a step of method muon does: x is close to U V^T if {@code a} is U diag(s) V^T.
   *
   * @param config config whose keys "orthogonalization" and "ns_..." are used. If you change these keys, also set the
   *     key "method" to "muon".
   * @param rows number of rows, at least 1.
   * @param columns number of columns, at least 1. The smaller of rows and columns is at most 32750.
   * @param dtype type of {@code a} and {@code x}: F32 or F64.
   * @param a direct buffer of rows * columns elements, row-major.
   * @param x direct buffer of rows * columns elements, which receives the result. It may be the buffer {@code a}.
   * @throws ShampooException.Invalid if an argument is out of range, or a buffer has the wrong size or type.
   * @throws ShampooException.Numeric if {@code a} contains NaN or infinity, or the iteration diverged; x is unchanged.
   */
  public static void orthogonalize(Config config, int rows, int columns, DType dtype, Buffer a, Buffer x) {
    Memory from = Memory.of(a);
    Memory to = Memory.of(x);
    from.check("a", dtype, (long) rows * columns, DeviceType.CPU, false);
    to.check("x", dtype, (long) rows * columns, DeviceType.CPU, true);
    try {
      config.handle.read(
          config,
          keys -> {
            Raw.shampoo_matrix_orthogonalize(keys, rows, columns, dtype.code, from.address(), to.address());
            return null;
          });
    } finally {
      Reference.reachabilityFence(a);
      Reference.reachabilityFence(x);
    }
  }

  /**
   * Saves the states of the optimizers of all ranks as one checkpoint. All ranks of the job must call this method.
   *
   * @param optimizers the optimizers of this rank.
   * @param directory directory of the checkpoints, created if it does not exist. A successful save removes old
   *     checkpoints from it; the key "checkpoint_keep" is the number of checkpoints that remain. docs/checkpoints.md
   *     describes the files.
   * @param world communicator of all ranks of the job, or null if there is only one rank.
   * @param stream CUDA stream on which the states are copied; 0 on the CPU.
   * @throws ShampooException.Invalid if two optimizers have parameters with the same name, or if an optimizer has more
   *     ranks than {@code world}.
   * @throws ShampooException.Files if a file could not be written; the message names the file and the reason.
   * @throws ShampooException.Collective if an exchange failed.
   */
  public static void save(List<Optimizer> optimizers, Path directory, Comm world, long stream) {
    withHandles(optimizers, world, (opts, comm) -> Raw.shampoo_save(opts, comm, directory.toString(), stream));
  }

  /**
   * Loads the last checkpoint of a directory into optimizers. All ranks of the job must call this method.
   *
   * @param optimizers the optimizers of this rank.
   * @param directory directory in which checkpoints were saved, or the index file of one checkpoint.
   * @param world communicator of all ranks of the job, or null if there is only one rank.
   * @param stream CUDA stream on which the states are copied; 0 on the CPU.
   * @throws ShampooException.Invalid if the checkpoint does not match the optimizers, for example in parameters,
   *     dtypes, method, grafting or blocks.
   * @throws ShampooException.Files if there is no checkpoint, or a file is missing or damaged. States do not change,
   *     unless the load fails after it has begun to write states (docs/checkpoints.md).
   * @throws ShampooException.Collective if an exchange failed.
   */
  public static void load(List<Optimizer> optimizers, Path directory, Comm world, long stream) {
    withHandles(optimizers, world, (opts, comm) -> Raw.shampoo_load(opts, comm, directory.toString(), stream));
  }

  private interface Call {
    void of(long[] opts, long world);
  }

  private static void withHandles(List<Optimizer> optimizers, Comm world, Call call) {
    List<Optimizer> all = List.copyOf(optimizers);
    List<Comm> comms = new ArrayList<>(all.stream().flatMap(optimizer -> optimizer.comms.stream()).toList());
    if (world != null) {
      comms.add(world);
    }
    long[] opts = new long[all.size()];
    int entered = 0;
    try {
      for (; entered < opts.length; ++entered) {
        int earlier = all.indexOf(all.get(entered));
        if (earlier < entered) {
          throw new ShampooException.Invalid(
              "optimizers: elements " + earlier + " and " + entered
                  + " are the same optimizer; pass each optimizer once");
        }
        opts[entered] = all.get(entered).handle.enter();
      }
      Optimizer.withComm(
          world,
          comm ->
              Comm.using(
                  comms,
                  () -> {
                    call.of(opts, comm);
                    return null;
                  }));
    } finally {
      while (entered > 0) {
        all.get(--entered).handle.leave();
      }
    }
  }
}
