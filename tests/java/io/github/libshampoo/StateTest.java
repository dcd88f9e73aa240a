// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Tests of state entries, arenas and checkpoints. */
class StateTest {
  private static void assertRejected(String part, Executable call) {
    String text = assertThrows(ShampooException.Invalid.class, call).getMessage();
    assertTrue(text.contains(part), text);
  }

  private static Optimizer make(Param param) {
    try (Config config = Model.config();
        Plan plan = new Plan(config)) {
      plan.addParam(param);
      return new Optimizer(plan.finish());
    }
  }

  private static void step(Optimizer optimizer, FloatBuffer w, int step) {
    optimizer.bind(0, w, Buffers.floats(Model.gradient(0, step)));
    optimizer.step();
  }

  private static Optimizer ofModel() {
    return make(new Param("w", Model.SHAPES[0]));
  }

  @Test
  void trainingContinuesBitIdenticallyFromACopiedState(@TempDir Path folder) {
    FloatBuffer w = Buffers.floats(Model.first(0));
    try (Optimizer optimizer = ofModel();
        Optimizer copy = ofModel();
        Optimizer loaded = ofModel()) {
      step(optimizer, w, 0);
      step(optimizer, w, 1);
      List<StateEntry> entries = optimizer.stateEntries();
      assertEquals(entries, copy.stateEntries());
      for (StateEntry entry : entries) {
        copy.writeState(entry, optimizer.readState(entry));
      }
      optimizer.save(folder);
      loaded.load(folder);
      FloatBuffer other = Buffers.floats(Buffers.copy(w));
      FloatBuffer third = Buffers.floats(Buffers.copy(w));
      step(optimizer, w, 2);
      step(copy, other, 2);
      step(loaded, third, 2);
      assertArrayEquals(Buffers.copy(w), Buffers.copy(other));
      assertArrayEquals(Buffers.copy(w), Buffers.copy(third));
    }
  }

  @Test
  void entriesAreDescribedAndWrongAccessIsRejected() {
    try (Optimizer optimizer = ofModel()) {
      List<StateEntry> entries = optimizer.stateEntries();
      StateEntry factor = entries.stream().filter(entry -> entry.key().equals("w/0/factor.0")).findFirst().orElseThrow();
      assertEquals(List.of(8L, 8L), factor.shape());
      assertEquals(64, factor.elements());
      assertEquals(DType.F32, factor.dtype());
      assertTrue(factor.symmetric());
      assertEquals(-1, factor.flatOffset());
      assertEquals(256, optimizer.readState(factor).capacity());
      FloatBuffer row = Buffers.filled(8, 1);
      optimizer.readState(factor, 8, 8, Memory.of(row), DeviceType.CPU, 0);
      assertEquals(0, row.get(1));
      assertRejected("bytes", () -> optimizer.readState(factor, 0, 64, Memory.of(row), DeviceType.CPU, 0));
      assertThrows(
          ShampooException.Invalid.class, () -> optimizer.readState(factor, 60, 8, Memory.of(row), DeviceType.CPU, 0));
      assertRejected("read-only", () -> optimizer.readState(factor, 0, 8, Memory.of(row.asReadOnlyBuffer()), DeviceType.CPU, 0));
      assertRejected("F32", () -> optimizer.writeState(factor, Buffers.bytes(256).asIntBuffer()));
      assertThrows(
          ShampooException.Unsupported.class,
          () -> optimizer.readState(factor, 0, 8, Memory.of(Memory.of(row).address(), 32), DeviceType.CUDA, 0));
      StateEntry none = new StateEntry(999, "none", List.of(8L), DType.F32, 0, 0, false, 0, 0, false);
      assertThrows(ShampooException.Invalid.class, () -> optimizer.readState(none));
      StateEntry large = new StateEntry(0, "large", List.of(1L << 15, 1L << 15), DType.F32, 0, 0, true, 0, 0, false);
      assertRejected("read parts of the state", () -> optimizer.readState(large));
    }
  }

  @Test
  void aStepThatReadsOneArenaAndWritesAnotherIsPure() {
    try (Config config = Model.config();
        Plan plan = new Plan(config)) {
      plan.addParam("w", Model.SHAPES[0]);
      long bytes = plan.finish().bytes("state");
      ByteBuffer first = Shampoo.bytes(bytes);
      ByteBuffer second = Shampoo.bytes(bytes);
      assertThrows(
          ShampooException.Invalid.class,
          () -> new Optimizer(plan, new OptimizerOptions().state(Memory.of(Shampoo.bytes(bytes - 64)))));
      try (Optimizer optimizer = new Optimizer(plan, new OptimizerOptions().state(Memory.of(first)))) {
        optimizer.bindState(Memory.of(first.asReadOnlyBuffer().order(ByteOrder.nativeOrder())), Memory.of(second));
        List<float[]> results = new ArrayList<>();
        for (int time = 0; time < 2; ++time) {
          FloatBuffer w = Buffers.floats(Model.first(0));
          step(optimizer, w, 0);
          results.add(Buffers.copy(w));
        }
        assertArrayEquals(results.get(0), results.get(1));
        assertTrue(first.mismatch(second) >= 0);
        assertRejected("bytes", () -> optimizer.bindState(Memory.of(first), Memory.of(Shampoo.bytes(bytes - 64))));
        assertThrows(ShampooException.Invalid.class, () -> optimizer.bindState(Memory.of(first), null));
        assertRejected("read-only", () -> {
          Memory only = Memory.of(first.asReadOnlyBuffer().order(ByteOrder.nativeOrder()));
          optimizer.bindState(only, only);
        });
        optimizer.bindState(null, null);
      }
    }
  }

  @Test
  void missingCheckpointsAreReported(@TempDir Path folder) throws Exception {
    try (Optimizer optimizer = ofModel();
        Optimizer other = make(new Param("other", 4))) {
      ShampooException error = assertThrows(ShampooException.Files.class, () -> optimizer.load(folder));
      assertTrue(error.getMessage().contains(folder.toString()), error.getMessage());
      optimizer.save(folder);
      assertThrows(ShampooException.Invalid.class, () -> other.load(folder));
      Path file = folder.resolve("file");
      Files.writeString(file, "");
      assertThrows(ShampooException.Files.class, () -> optimizer.save(file));
      // save rejects two optimizers with the same parameter names, and a list that has one optimizer twice.
      try (Optimizer twin = ofModel()) {
        assertThrows(ShampooException.Invalid.class, () -> Shampoo.save(List.of(optimizer, twin), folder, null, 0));
      }
      assertRejected("elements 0 and 1 are", () -> Shampoo.save(List.of(optimizer, optimizer), folder, null, 0));
      optimizer.load(folder); // succeeds, because the failed calls of save have released the optimizer
    }
  }
}
