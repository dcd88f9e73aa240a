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

/** The library as a whole: version, backends, messages, the table of keys, checkpoints of many ranks, inverse roots. */
public final class Shampoo {
  private Shampoo() {}

  /**
   * Allocates a buffer for float32 parameters or gradients: direct, in the native byte order, filled with zeros, at an
   * address that is a multiple of 64.
   *
   * @param count number of elements.
   * @return the buffer, from position 0 to the limit count.
   * @throws ShampooException.Invalid count is negative, or the buffer would exceed 2 GiB.
   */
  public static FloatBuffer floats(long count) {
    return allocate("floats", count, 4).asFloatBuffer();
  }

  /**
   * Allocates a buffer for float64 parameters or gradients, like {@link #floats}.
   *
   * @param count number of elements.
   * @return the buffer.
   * @throws ShampooException.Invalid count is negative, or the buffer would exceed 2 GiB.
   */
  public static DoubleBuffer doubles(long count) {
    return allocate("doubles", count, 8).asDoubleBuffer();
  }

  /**
   * Allocates a buffer for float16 or bfloat16 parameters or gradients, like {@link #floats}. Each short has the bits of
   * one number.
   *
   * @param count number of elements.
   * @return the buffer.
   * @throws ShampooException.Invalid count is negative, or the buffer would exceed 2 GiB.
   */
  public static ShortBuffer shorts(long count) {
    return allocate("shorts", count, 2).asShortBuffer();
  }

  /**
   * Allocates a buffer of bytes, like {@link #floats}: for elements of any type, or for the state of an optimizer.
   *
   * @param count number of bytes.
   * @return the buffer.
   * @throws ShampooException.Invalid count is negative, or the buffer would exceed 2 GiB.
   */
  public static ByteBuffer bytes(long count) {
    return allocate("bytes", count, 1);
  }

  private static ByteBuffer allocate(String method, long count, int size) {
    int alignment = 64; // that of a state; enough for all types of elements
    long most = (Integer.MAX_VALUE - alignment + 1) / size;
    if (count < 0 || count > most) {
      throw new ShampooException.Invalid(
          method + ": count is " + count + "; expected 0 to " + most
              + ", because a buffer holds at most 2 GiB. Use Memory.of(address, bytes) for larger memory");
    }
    int bytes = (int) count * size;
    ByteBuffer all = ByteBuffer.allocateDirect(bytes + alignment - 1);
    int first = (alignment - all.alignmentOffset(0, alignment)) % alignment;
    return all.slice(first, bytes).order(ByteOrder.nativeOrder());
  }

  /**
   * Version of the library that is loaded.
   *
   * @return such as "0.1.0".
   */
  public static String version() {
    return Library.spelt(Raw.shampoo_version());
  }

  /**
   * What the library is, for logs and bug reports.
   *
   * @return one JSON object: version, compiler, BLAS, features.
   */
  public static String buildInfo() {
    return Raw.shampoo_build_info();
  }

  /**
   * What the library can compute on. It loads the backend for CUDA if that is there, and asks the driver.
   *
   * @return the CPU first.
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
   * Loads the backend for CUDA, once per process. It need not be called where libshampoo_cuda.so lies beside the library,
   * or where the system finds it.
   *
   * @param nameOrPath "cuda", or the path of the file.
   * @throws ShampooException.Unsupported it is not there, lacks a library, or is of another version; the text tells which.
   * @throws ShampooException.State it was loaded from another file before.
   */
  public static void loadBackend(String nameOrPath) {
    Raw.shampoo_backend_load(nameOrPath);
  }

  /**
   * Sets the one receiver of messages of the process; without one they are dropped.
   *
   * @param callback receives messages; null: none does.
   * @param most messages that matter less are not delivered.
   */
  public static void setLog(LogCallback callback, LogLevel most) {
    Raw.shampoo_set_log(callback, most.ordinal());
  }

  /**
   * The table of hyper-parameters, with their documentation.
   *
   * @return every key by its name, in the order of docs/keys.md.
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
                info.getScope() == 1, info.getChangeable() == 1));
      }
    }
    return Collections.unmodifiableMap(keys);
  }

  /**
   * Computes the inverse root of a symmetric matrix: x = (a + e I)^(-exponent_multiplier * rootDen / rootNum), as a step
   * does. e is root_relative_epsilon times the mean eigenvalue of a (its trace divided by the order), or epsilon where
   * that key is set instead.
   *
   * @param config of which the keys that begin with "root_", "epsilon" and "exponent_multiplier" are read.
   * @param order of the matrix, 1..32750.
   * @param dtype of a and x: F32 or F64.
   * @param a direct buffer of order * order elements, row-major, of which those on and below the diagonal are read.
   * @param x direct buffer of as many, which receives the root. May be a.
   * @param rootNum numerator of the root, at least 1: 4 for the inverse fourth root.
   * @param rootDen denominator of the root, at least 1.
   * @return how it was computed.
   * @throws ShampooException.Invalid an argument is out of range, or a buffer of another size or type.
   * @throws ShampooException.Numeric a has a NaN or an infinity, or the root is not finite. x is as before.
   */
  public static RootInfo inverseRoot(Config config, int order, DType dtype, Buffer a, Buffer x, int rootNum, int rootDen) {
    Memory from = Memory.of(a);
    Memory to = Memory.of(x);
    from.check("a", dtype, (long) order * order, DeviceType.CPU, false);
    to.check("x", dtype, (long) order * order, DeviceType.CPU, true);
    try (shampoo_root_info info = new shampoo_root_info()) {
      config.handle.read(
          config,
          keys -> {
            Raw.shampoo_matrix_inverse_root(keys, order, dtype.code, from.address(), to.address(), rootNum, rootDen, info);
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
   * Saves the states of all optimizers of this rank, and those of all other ranks, as one checkpoint. Collective.
   *
   * @param optimizers those of this rank.
   * @param directory made if it is not there; it keeps the last checkpoints. docs/checkpoints.md describes the files.
   * @param world communicator of all ranks of the job; null: there is one.
   * @param stream on CUDA that in whose order states are copied; otherwise 0.
   * @throws ShampooException.Invalid a name is in two optimizers, or world is too small.
   * @throws ShampooException.Files a file could not be written; the text names it and the reason.
   * @throws ShampooException.Collective an exchange failed.
   */
  public static void save(List<Optimizer> optimizers, Path directory, Comm world, long stream) {
    withHandles(optimizers, world, (opts, comm) -> Raw.shampoo_save(opts, comm, directory.toString(), stream));
  }

  /**
   * Loads the last checkpoint of a directory into optimizers. Collective; parameters as of {@link #save}.
   *
   * @param optimizers those of this rank.
   * @param directory that checkpoints were saved into; or the index of one of them.
   * @param world communicator of all ranks of the job; null: there is one.
   * @param stream on CUDA that in whose order states are copied; otherwise 0.
   * @throws ShampooException.Invalid it is of other parameters, dtypes, grafting or blocks.
   * @throws ShampooException.Files there is none, or a file is missing or damaged. States are as they were.
   * @throws ShampooException.Collective an exchange failed.
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
          throw new ShampooException.Invalid("optimizers: number " + entered + " is number " + earlier + " once more");
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
