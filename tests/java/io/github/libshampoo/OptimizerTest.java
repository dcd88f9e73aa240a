// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.FloatBuffer;
import java.nio.ShortBuffer;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Tests of buffers, steps and hyper-parameters. */
class OptimizerTest {
  private static Optimizer make(Config config, Param... params) {
    try (config;
        Plan plan = new Plan(config)) {
      for (Param param : params) {
        plan.addParam(param);
      }
      return new Optimizer(plan.finish());
    }
  }

  private static Optimizer make() {
    return make(Model.config(), new Param("w", 3, 2), new Param("b", 2));
  }

  private static void assertRejected(String part, Executable call) {
    String text = assertThrows(ShampooException.Invalid.class, call).getMessage();
    assertTrue(text.contains(part), text);
  }

  @Test
  void stepsMinimizeALoss() {
    FloatBuffer w = Buffers.floats(3, -4);
    FloatBuffer grad = Buffers.filled(2, 0);
    try (Optimizer optimizer = make(Model.config(), new Param("w", 2))) {
      optimizer.bind("w", w, grad);
      for (int step = 0; step < 200; ++step) {
        grad.put(0, 2 * w.get(0)).put(1, 2 * w.get(1)); // each step reads the current values without a new bind
        optimizer.step();
      }
      assertEquals(200, optimizer.stat("steps"));
    }
    assertEquals(0, w.get(0), 0.1);
    assertEquals(0, w.get(1), 0.1);
  }

  @Test
  void anOptimizerFromThePresetSoapTrains() {
    FloatBuffer w = Buffers.filled(12, 0);
    FloatBuffer b = Buffers.filled(3, 0);
    FloatBuffer ofW = Buffers.filled(12, 0);
    FloatBuffer ofB = Buffers.filled(3, 0);
    try (Optimizer optimizer = Optimizer.create("preset = soap", new Tensor("w", w, ofW, 3, 4), new Tensor("b", b, ofB, 3))) {
      List<String> bases = optimizer.stateEntries().stream().map(StateEntry::key).filter(key -> key.contains("basis")).toList();
      assertEquals(List.of("w/0/basis.0", "w/0/basis.1"), bases); // a vector has no eigenbasis
      double first = lossOf(w, b, ofW, ofB);
      for (int step = 0; step < 300; ++step) {
        double loss = lossOf(w, b, ofW, ofB);
        assertTrue(loss <= first, "step " + step + ": " + loss);
        optimizer.step();
      }
      double last = lossOf(w, b, ofW, ofB);
      assertTrue(last < 0.01 * first, first + " " + last);
    }
  }

  /** Returns the loss of a linear model. Writes the gradients of w and b to ofW and ofB. The smallest loss is 0. */
  private static double lossOf(FloatBuffer w, FloatBuffer b, FloatBuffer ofW, FloatBuffer ofB) {
    double loss = 0;
    for (int i = 0; i < 3; ++i) {
      float[] sums = new float[5];
      for (int sample = 0; sample < 8; ++sample) {
        float error = b.get(i) - (i - 1) * 0.5f;
        for (int j = 0; j < 4; ++j) {
          error += (w.get(4 * i + j) - ((4 * i + j) % 5 - 2) * 0.25f) * input(sample, j);
        }
        for (int j = 0; j < 5; ++j) {
          sums[j] += error * input(sample, j);
        }
        loss += 0.5 * error * error;
      }
      for (int j = 0; j < 4; ++j) {
        ofW.put(4 * i + j, sums[j]);
      }
      ofB.put(i, sums[4]);
    }
    return loss;
  }

  private static float input(int sample, int j) {
    return j == 4 ? 1 : (float) Math.sin(1 + 5 * sample + 2 * j);
  }

  @Test
  void averagesAreExported() {
    FloatBuffer w = Buffers.floats(1, 2);
    FloatBuffer grad = Buffers.floats(1, 0);
    FloatBuffer average = Buffers.filled(2, 7);
    Config config = new Config().set("method", "sgd").set("lr", 0.5).set("weight_ema", 0.75);
    try (Optimizer optimizer = make(config, new Param("w", 2))) {
      optimizer.bind("w", w, grad);
      optimizer.step();
      grad.put(1, 2);
      optimizer.step();
      assertArrayEquals(new float[] {0, 1}, Buffers.copy(w));
      optimizer.export(1, List.of(Memory.of(average)));
      assertArrayEquals(new float[] {0.375f, 1.75f}, Buffers.copy(average));
      optimizer.export(0, List.of(Memory.of(average)));
      assertArrayEquals(new float[] {0, 1}, Buffers.copy(average));
      optimizer.export(1, Collections.singletonList(null));
      assertArrayEquals(new float[] {0, 1}, Buffers.copy(average));

      assertRejected("blend is 1.5", () -> optimizer.export(1.5, List.of(Memory.of(average))));
      assertRejected("weights has length 0; expected 1", () -> optimizer.export(1, List.of()));
      assertRejected("overlaps the parameter \"w\"", () -> optimizer.export(1, List.of(Memory.of(w))));
      FloatBuffer small = Buffers.filled(1, 0);
      assertRejected("weights of", () -> optimizer.export(1, List.of(Memory.of(small))));
    }
  }

  /** Checks that Memory has the address of the element at the buffer's position. A copy would have another address. */
  @Test
  void memoryStartsAtThePositionOfItsBuffer() {
    ByteBuffer bytes = Buffers.bytes(64);
    long base = Raw.address(bytes);
    assertNotEquals(0, base);
    assertEquals(base, Memory.of(bytes).address());
    assertEquals(base + 8, Memory.of(bytes.position(8)).address());
    assertEquals(56, Memory.of(bytes).bytes());
    FloatBuffer floats = bytes.slice().order(ByteOrder.nativeOrder()).asFloatBuffer();
    assertEquals(base + 8 + 12, Memory.of(floats.position(3).limit(5)).address());
    assertEquals(8, Memory.of(floats).bytes());
    assertEquals(base + 8, Memory.of(bytes.slice().order(ByteOrder.nativeOrder()).asDoubleBuffer()).address());
    assertEquals(base + 8 + 2, Memory.of(bytes.slice().order(ByteOrder.nativeOrder()).asShortBuffer().position(1)).address());
  }

  @Test
  void aStepUsesABufferFromItsPositionToItsLimit() {
    FloatBuffer all = Buffers.filled(10, 1);
    try (Optimizer optimizer = make(Model.config(), new Param("w", 4))) {
      optimizer.bind("w", all.position(3).limit(7), Buffers.filled(4, 1));
      all.clear();
      optimizer.step();
    }
    float[] values = Buffers.copy(all);
    for (int i = 0; i < 10; ++i) {
      assertEquals(i < 3 || i >= 7, values[i] == 1, "element " + i);
    }
  }

  @Test
  void memoryAtAnAddressIsAccepted() {
    FloatBuffer w = Buffers.filled(4, 1);
    FloatBuffer grad = Buffers.filled(4, 1);
    Memory memory = Memory.of(Memory.of(w).address(), 16);
    try (Optimizer optimizer = make(Model.config(), new Param("w", 4))) {
      optimizer.bind(0, List.of(new Binding(memory, Memory.of(grad), memory, null)));
      optimizer.step();
      Memory small = Memory.of(memory.address(), 12);
      assertRejected("12 bytes", () -> optimizer.bind(0, List.of(new Binding(small, null, small, null))));
    }
    assertTrue(w.get(0) < 1);
    assertRejected("address 0", () -> Memory.of(0, 4));
    assertRejected("-1 bytes", () -> Memory.of(64, -1));
  }

  @Test
  void wrongBuffersAreRejected() {
    FloatBuffer w = Buffers.filled(6, 1);
    FloatBuffer grad = Buffers.filled(6, 1);
    try (Optimizer optimizer = make()) {
      assertRejected("not direct", () -> optimizer.bind("w", FloatBuffer.allocate(6), grad));
      ByteBuffer big = ByteBuffer.allocateDirect(24);
      assertRejected("BIG_ENDIAN", () -> optimizer.bind("w", big, grad));
      assertRejected("BIG_ENDIAN", () -> optimizer.bind("w", big.asFloatBuffer(), grad));
      Buffer chars = Buffers.bytes(24).asCharBuffer();
      assertTrue(chars instanceof CharBuffer);
      assertRejected("bytes, floats", () -> optimizer.bind("w", chars, grad));
      assertRejected("expected a buffer of F32", () -> optimizer.bind("w", Buffers.bytes(24).asDoubleBuffer(), grad));
      assertRejected("gradient of \"w\": 20 bytes; expected 24", () -> optimizer.bind("w", w, Buffers.filled(5, 1)));
      assertRejected("parameter \"w\": 28 bytes; expected 24", () -> optimizer.bind("w", Buffers.filled(7, 1), grad));
      ByteBuffer odd = Buffers.bytes(25).position(1).slice().order(ByteOrder.nativeOrder());
      assertRejected("align", () -> optimizer.bind("w", odd, grad));
      assertRejected("read-only", () -> optimizer.bind("w", w.asReadOnlyBuffer(), grad));
      assertRejected("overlap", () -> {
        Memory memory = Memory.of(w);
        optimizer.bind(0, List.of(new Binding(memory, Memory.of(grad), memory, memory)));
      });
      assertRejected("\"none\"", () -> optimizer.bind("none", w, grad));
      assertRejected("[0, 2)", () -> optimizer.bind(2, w, grad));
      assertRejected("[0, 2)", () -> optimizer.bind(-1, w, grad));
      assertThrows(NullPointerException.class, () -> optimizer.bind(0, (Buffer) null, grad));
      assertThrows(ShampooException.State.class, () -> optimizer.bindGrad(0, grad));
      assertRejected("expected 0 to 1", () -> optimizer.bindGrad(2, grad));
      assertRejected("expected 0 to 1", () -> optimizer.bindGrad(-1, grad));
      // None of the calls above has bound anything.
      assertThrows(ShampooException.State.class, optimizer::step);
      optimizer.bind("w", w, grad.asReadOnlyBuffer()); // gradients may be read-only
    }
  }

  @Test
  void aFailingBindBindsNoParameter() {
    try (Optimizer optimizer = make()) {
      List<Binding> bindings =
          List.of(Binding.inPlace(Buffers.filled(6, 1), null), Binding.inPlace(Buffers.filled(3, 1), null));
      assertRejected("\"b\"", () -> optimizer.bind(0, bindings));
      assertTrue(assertThrows(ShampooException.State.class, optimizer::step).getMessage().contains("w"));
      assertTrue(optimizer.error().contains("w"));
    }
  }

  @Test
  void aParameterWithoutAGradientDoesNotChange() {
    FloatBuffer w = Buffers.filled(6, 1);
    FloatBuffer b = Buffers.filled(2, 1);
    try (Optimizer optimizer = make()) {
      optimizer.bind("w", w, Buffers.filled(6, 1));
      optimizer.bind("b", b, null);
      optimizer.step();
      assertTrue(w.get(0) < 1);
      assertEquals(1, b.get(0));
      optimizer.bindGrad(1, Buffers.filled(2, 1));
      optimizer.bindGrad(0, null);
      float[] before = Buffers.copy(w);
      optimizer.step();
      assertTrue(b.get(0) < 1);
      assertArrayEquals(before, Buffers.copy(w));
    }
  }

  @Test
  void outputsAndCopiesAreWritten() {
    FloatBuffer w = Buffers.filled(4, 1);
    FloatBuffer update = Buffers.filled(4, 7);
    try (Optimizer optimizer = make(Model.config().set("output", "updates"), new Param("w", 4))) {
      Binding binding = new Binding(Memory.of(w.asReadOnlyBuffer()), Memory.of(Buffers.filled(4, 1)), Memory.of(update), null);
      optimizer.bind(0, List.of(binding));
      optimizer.step();
      assertEquals(1, w.get(0));
      assertTrue(update.get(0) < 0);
    }
    ByteBuffer half = Buffers.bytes(8);
    try (Optimizer optimizer = make(Model.config(), new Param("w", 4).copyDtype(DType.BF16))) {
      Binding binding = Binding.inPlace(w, Buffers.filled(4, 1));
      Memory copy = Memory.of(half.asShortBuffer());
      optimizer.bind(0, List.of(new Binding(binding.param(), binding.grad(), binding.out(), copy)));
      optimizer.step();
      assertEquals(w.get(0), Float.intBitsToFloat(half.getShort(0) << 16), 0.01);
    }
  }

  /**
   * In a group with output=updates, the output buffer must not be the memory of the parameter, because the update would
   * overwrite the parameter.
   */
  @Test
  void aGroupThatOutputsUpdatesLeavesItsParametersUnchanged() {
    FloatBuffer w = Buffers.filled(4, 1);
    FloatBuffer b = Buffers.filled(4, 1);
    FloatBuffer grad = Buffers.filled(4, 1);
    FloatBuffer update = Buffers.filled(4, 0);
    try (Config config = Model.config();
        Config updates = config.copy().set("output", "updates");
        Plan plan = new Plan(config)) {
      plan.addParam("w", 4);
      plan.addParam(new Param("b", 4).group(plan.addGroup(updates)));
      try (Optimizer optimizer = new Optimizer(plan.finish())) {
        optimizer.bind("w", w, grad);
        assertRejected("output of \"b\"", () -> optimizer.bind("b", b, grad));
        assertRejected("set to updates", () -> optimizer.bind(0, List.of(Binding.inPlace(w, grad), Binding.inPlace(b, grad))));
        optimizer.bind(1, List.of(new Binding(Memory.of(b), Memory.of(grad), Memory.of(update), null)));
        optimizer.step();
        assertEquals(1, b.get(0));
        assertEquals(w.get(0), 1 + update.get(0));
      }
    }
  }

  @Test
  void aGradientThatIsNotFiniteChangesNothing() {
    FloatBuffer w = Buffers.filled(6, 1);
    FloatBuffer grad = Buffers.filled(6, 1);
    try (Optimizer optimizer = make()) {
      optimizer.bind("w", w, grad);
      optimizer.bind("b", Buffers.filled(2, 1), null);
      optimizer.step();
      float[] before = Buffers.copy(w);
      List<ByteBuffer> state = optimizer.stateEntries().stream().map(optimizer::readState).toList();
      grad.put(4, Float.NaN);
      ShampooException error = assertThrows(ShampooException.Numeric.class, optimizer::step);
      assertTrue(error.getMessage().contains("w"), error.getMessage());
      assertEquals(error.getMessage(), optimizer.error());
      assertArrayEquals(before, Buffers.copy(w));
      assertEquals(state, optimizer.stateEntries().stream().map(optimizer::readState).toList());
      assertEquals(1, optimizer.stat("steps"));
      grad.put(4, 1);
      optimizer.step();
      assertEquals(2, optimizer.stat("steps"));
    }
  }

  @Test
  void hyperParametersChangeBetweenSteps() {
    FloatBuffer w = Buffers.filled(6, 1);
    try (Optimizer optimizer = make()) {
      optimizer.bind("w", w, Buffers.filled(6, 1));
      optimizer.bind("b", Buffers.filled(2, 1), null);
      assertEquals(0.1, optimizer.get(0, "lr"));
      optimizer.set(0, "lr", 0);
      optimizer.step();
      assertEquals(1, w.get(0));
      FloatBuffer rate = Buffers.floats(0.5f);
      optimizer.bindScalar(0, "lr", DType.F32, Memory.of(rate));
      optimizer.step();
      float after = w.get(0);
      assertTrue(after < 0.9);
      rate.put(0, 0); // each step reads the bound scalar when it starts
      optimizer.step();
      assertEquals(after, w.get(0));
      rate.put(0, -1);
      assertThrows(ShampooException.Invalid.class, optimizer::step);
      optimizer.bindScalar(0, "lr", null, null);
      optimizer.set(0, "lr", 0.5);
      optimizer.step();
      assertTrue(w.get(0) < after);
      optimizer.status(true);
      assertThrows(ShampooException.Invalid.class, () -> optimizer.set(1, "lr", 0.1));
      assertThrows(ShampooException.Invalid.class, () -> optimizer.set(0, "grafting", 1));
      assertThrows(ShampooException.State.class, () -> optimizer.set(0, "momentum", 0.5));
      assertThrows(ShampooException.Invalid.class, () -> optimizer.get(0, "grafting"));
      assertThrows(ShampooException.Invalid.class, () -> optimizer.stat("none"));
      assertThrows(ShampooException.Invalid.class, () -> optimizer.step(64)); // the CPU has no streams
      assertRejected("lr", () -> optimizer.bindScalar(0, "lr", DType.F64, Memory.of(rate)));
      assertThrows(
          ShampooException.Invalid.class, () -> optimizer.bindScalar(0, "beta2", DType.F32, Memory.of(rate)));
    }
  }

  @Test
  void aLearningRateIsSetInAllGroupsOrInNone() {
    Config config = Model.config().set("lr", 0.1);
    try (Plan plan = new Plan(config)) {
      int second = plan.addGroup(config.copy().set("lr", 0.2));
      plan.addParam(new Param("wide", 4).dtype(DType.F64));
      plan.addParam(new Param("narrow", 4).group(second));
      try (Optimizer optimizer = new Optimizer(plan.finish())) {
        assertEquals(0.1, optimizer.lr());
        assertRejected("lr", () -> optimizer.setLr(1e300)); // too large for float32
        assertRejected("lr", () -> optimizer.setLr(-1));
        assertEquals(List.of(0.1, 0.2), List.of(optimizer.get(0, "lr"), optimizer.get(second, "lr")));
        optimizer.setLr(0.5);
        assertEquals(List.of(0.5, 0.5), List.of(optimizer.get(0, "lr"), optimizer.get(second, "lr")));
        assertEquals(0.5, optimizer.lr());
      }
    }
  }

  /** Checks that buffers from Shampoo.floats and similar methods can be bound, and are aligned to 64 bytes. */
  @Test
  void allocatedBuffersAreDirectNativeAndZero() {
    FloatBuffer floats = Shampoo.floats(6);
    assertEquals(List.of(6, 6, 5, 3), List.of(floats.limit(), floats.capacity(), Shampoo.doubles(5).limit(), Shampoo.shorts(3).limit()));
    assertEquals(0, Shampoo.floats(0).limit());
    ByteBuffer bytes = Shampoo.bytes(7);
    assertEquals(7, bytes.limit());
    for (int index = 0; index < 7; ++index) {
      assertEquals(0, bytes.get(index));
    }
    for (java.nio.Buffer buffer : List.of(floats, bytes, Shampoo.doubles(1), Shampoo.shorts(1))) {
      assertTrue(buffer.isDirect());
      assertEquals(0, Memory.of(buffer).address() % 64); // Memory.of fails if the byte order is not native
    }
    assertRejected("floats: count is -1", () -> Shampoo.floats(-1));
    assertRejected("expected 0 to 268435448", () -> Shampoo.doubles(1L << 31));
    assertRejected("bytes: count is 2147483647", () -> Shampoo.bytes(Integer.MAX_VALUE));
    try (Optimizer optimizer =
        make(Model.config(), new Param("w", 3, 2), new Param("d", 2).dtype(DType.F64), new Param("h", 2).dtype(DType.BF16))) {
      optimizer.bind("w", floats, Shampoo.floats(6));
      optimizer.bind("d", Shampoo.doubles(2), null);
      optimizer.bind("h", Shampoo.shorts(2), null);
      optimizer.step();
    }
  }

  @Test
  void anOptimizerFromCreateEqualsOneFromAConfigAndAPlan() {
    FloatBuffer simple = Buffers.filled(6, 2);
    FloatBuffer full = Buffers.filled(6, 2);
    FloatBuffer gradient = Buffers.filled(6, 1);
    try (Optimizer created = Optimizer.create("lr=0.25 beta1=0.5", new Tensor("w", simple, gradient, 2, 3));
        Optimizer made = make(new Config().parse("lr=0.25 beta1=0.5"), new Param("w", 2, 3))) {
      made.bind("w", full, gradient);
      for (int step = 0; step < 3; ++step) {
        created.step();
        made.step();
      }
      assertEquals(full, simple);
      assertTrue(simple.get(0) < 2);
    }
    ShortBuffer half = Shampoo.shorts(4);
    try (Optimizer created = Optimizer.create("", new Tensor(DType.BF16, "h", half, null, 4))) {
      created.step();
    }
    assertRejected("there is no key \"lrr\"", () -> Optimizer.create("lrr=1"));
    assertRejected("key lr has no value", () -> new Config().parse("lr"));
    assertRejected("pass a DType", () -> new Tensor("h", half, null, 4));
    assertRejected("\"w\"", () -> Optimizer.create("", new Tensor("w", simple, gradient, 7)));
  }

  @Test
  void aParameterWithoutElementsCanBeBound() {
    FloatBuffer w = Buffers.filled(4, 1);
    try (Optimizer optimizer = make(Model.config(), new Param("empty", 0, 3), new Param("w", 4))) {
      optimizer.bind("empty", Buffers.filled(0, 1), Buffers.filled(0, 1));
      optimizer.bind("w", w, Buffers.filled(4, 1));
      optimizer.step();
      assertTrue(w.get(0) < 1);
    }
  }

  @Test
  void hostMemoryIsRejectedOnADevice() {
    Memory memory = Memory.of(Buffers.filled(4, 1));
    assertRejected("address on the device", () -> memory.check("w", DType.F32, 4, DeviceType.CUDA, false));
    try (Config config = Model.config();
        Plan plan = new Plan(config, new PlanOptions().device(DeviceType.CUDA))) {
      plan.addParam("w", 4);
      plan.finish();
      if (!Shampoo.backends().get(1).usable()) {
        assertThrows(ShampooException.Unsupported.class, () -> new Optimizer(plan));
      }
    }
  }
}
