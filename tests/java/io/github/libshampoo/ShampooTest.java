// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** Tests of the version, backends, keys, configs, plans, log messages, inverse roots and orthogonalization. */
class ShampooTest {
  private static String message(Class<? extends ShampooException> kind, org.junit.jupiter.api.function.Executable call) {
    return assertThrows(kind, call).getMessage();
  }

  private static void assertContains(String text, String part) {
    assertTrue(text.contains(part), text);
  }

  @Test
  void versionAgreesWithTheHeader() {
    assertEquals(System.getProperty("shampoo.version"), Shampoo.version());
    assertContains(Shampoo.buildInfo(), "\"version\"");
  }

  /** Checks that the generated class Raw has every function that the header declares, except shampoo_create_sized. */
  @Test
  void everyFunctionOfTheHeaderIsWrapped() throws IOException {
    String header = Files.readString(Path.of(System.getProperty("shampoo.header")));
    Matcher declared = Pattern.compile("^[a-z][a-z0-9_ ]*[ *](shampoo_\\w+)\\(", Pattern.MULTILINE).matcher(header);
    Set<String> names = new TreeSet<>();
    while (declared.find()) {
      names.add(declared.group(1));
    }
    assertTrue(names.size() > 40, names.toString());
    names.remove("shampoo_create_sized"); // in Java, Optimizer.create replaces this function
    names.removeAll(Arrays.stream(Raw.class.getMethods()).map(method -> method.getName()).collect(Collectors.toSet()));
    assertEquals(Set.of(), names);
  }

  @Test
  void internalClassesAreNotPublic() throws IOException {
    List<String> visible = new ArrayList<>();
    for (Class<?> type : List.of(Raw.class, RawConstants.class, RawJNI.class, shampoo_plan_desc.class, Handle.class)) {
      if (java.lang.reflect.Modifier.isPublic(type.getModifiers())) {
        visible.add(type.getName());
      }
    }
    assertEquals(List.of(), visible);
  }

  @Test
  void everyStatusHasAnException() {
    for (int status = 1; status <= 9; ++status) {
      ShampooException error = ShampooException.of(status, "text".getBytes(), null, -1);
      assertEquals(status, error.status());
      assertTrue(error.getClass() != ShampooException.class);
      assertEquals("text", error.getMessage());
      assertFalse(error.step().isPresent());
    }
    ShampooException other = ShampooException.of(77, "text".getBytes(), null, 3);
    assertEquals("status 77: text", other.getMessage());
    assertEquals(3, other.step().getAsLong());
    assertEquals("unknown status", Raw.shampoo_status_name(77));
    assertThrows(ShampooException.State.class, () -> new Plan(new Config()).blocks());
    assertFalse(Raw.shampoo_last_error().isEmpty());
  }

  @Test
  void backendsAreListed() {
    List<Backend> backends = Shampoo.backends();
    assertEquals("cpu", backends.get(0).name());
    assertTrue(backends.get(0).usable());
    assertEquals("cuda", backends.get(1).name());
    assertEquals(backends.get(1).usable(), backends.get(1).unavailableReason().isEmpty());
    assertContains(
        message(ShampooException.Unsupported.class, () -> Shampoo.loadBackend("/nowhere/libshampoo_cuda.so")), "/nowhere");
    assertThrows(ShampooException.Invalid.class, () -> Shampoo.loadBackend(""));
  }

  @Test
  void keysHaveDocumentation() {
    Map<String, Key> keys = Shampoo.keys();
    assertEquals("f64", keys.get("lr").valueType());
    assertTrue(keys.get("lr").changeable());
    assertTrue(keys.get("lr").perGroup());
    assertFalse(keys.get("threads").perGroup());
    assertContains(keys.get("threads").toString(), "of the whole optimizer");
    try (Config config = new Config()) {
      for (Key key : keys.values()) {
        assertFalse(key.doc().isEmpty(), key.name());
        assertEquals(key.defaultValue(), config.get(key.name()), key.name());
      }
    }
  }

  @Test
  void configAcceptsNumbersBooleansAndStrings() {
    try (Config config = new Config().set("lr", 0.25).set("precondition_frequency", 7).set("use_nesterov", true)) {
      config.set("grafting", "adam").set("momentum", 0);
      assertEquals("0.25", config.get("lr"));
      assertEquals("7", config.get("precondition_frequency"));
      assertEquals("true", config.get("use_nesterov"));
      try (Config other = config.copy().set("lr", 1.0)) {
        assertEquals("0.25", config.get("lr"));
        assertEquals("1", other.get("lr"));
        assertEquals("adam", other.get("grafting"));
      }
      assertContains(message(ShampooException.Invalid.class, () -> config.set("lrr", 1.0)), "lr");
      assertContains(message(ShampooException.Invalid.class, () -> config.set("lr", -1.0)), "-1");
      assertContains(message(ShampooException.Invalid.class, () -> config.set("grafting", "adum")), "adum");
      assertThrows(ShampooException.Invalid.class, () -> config.set("grafting", 1.5));
      assertThrows(ShampooException.Invalid.class, () -> config.set(null, 1.5));
      assertThrows(ShampooException.Invalid.class, () -> config.set("grafting", (String) null));
      assertContains(message(ShampooException.Invalid.class, () -> config.get("none")), "none");
      assertContains(message(ShampooException.Invalid.class, () -> config.set("a\0b", 1.0)), "U+0000");
      assertContains(message(ShampooException.Invalid.class, () -> config.set("\ud83d", 1.0)), "surrogate");
      assertEquals("0.25", config.get("lr"));
    }
  }

  @Test
  void aPlanDescribesBlocksAndBytes() {
    try (Config config = new Config().set("max_preconditioner_dim", 32);
        Plan plan = new Plan(config, new PlanOptions().replica(1, 2))) {
      int group = plan.addGroup(config);
      assertEquals(1, group);
      assertEquals(0, plan.addParam("w", 64, 32));
      assertEquals(1, plan.addParam(new Param("b", 64).dtype(DType.BF16).gradDtype(DType.F32).group(group)));
      assertThrows(ShampooException.State.class, plan::blocks);
      plan.finish();
      List<Block> blocks = plan.blocks();
      assertEquals(List.of(List.of(32L, 32L), List.of(32L, 32L), List.of(32L), List.of(32L)),
          blocks.stream().map(Block::shape).toList());
      assertEquals(List.of(32L, 1L), blocks.get(1).stride());
      assertEquals(1024, blocks.get(1).flatOffset());
      assertEquals(Set.of(0, 1), blocks.stream().map(Block::owner).collect(Collectors.toSet()));
      assertTrue(blocks.get(0).stateBytes() > 0);
      assertEquals(plan.bytes("total", 0), plan.bytes("state", 0) + plan.bytes("workspace", 0));
      assertEquals(plan.bytes("state"), plan.bytes("state", 1));
      assertEquals(List.of("w", "b"), plan.params().stream().map(Param::name).toList());
      assertThrows(ShampooException.State.class, () -> plan.addParam("late", 1));
      assertThrows(ShampooException.State.class, plan::finish);
      assertThrows(ShampooException.Invalid.class, () -> plan.bytes("none"));
      assertThrows(ShampooException.Invalid.class, () -> plan.bytes("state", 2));
    }
  }

  private static <T> T planOf(Param param, Function<Plan, T> read) {
    try (Config config = new Config();
        Plan plan = new Plan(config)) {
      plan.addParam(param);
      plan.finish();
      return read.apply(plan);
    }
  }

  @Test
  void rolesAndRowSplitsDescribeAParameter() {
    Function<Plan, Long> bytes = plan -> plan.bytes("state");
    Function<Plan, List<List<Long>>> shapes = plan -> plan.blocks().stream().map(Block::shape).toList();
    for (ModelRole role : ModelRole.values()) {
      boolean hasFactors = role == ModelRole.HIDDEN;
      assertEquals(hasFactors, planOf(new Param("w", 16, 8).role(role), bytes).equals(planOf(new Param("w", 16, 8), bytes)));
    }
    assertEquals(List.of(List.of(4L, 5L), List.of(2L, 5L), List.of(3L, 5L)),
        planOf(new Param("w", 9, 5).rowSplits(Fan.OUT_IN, 4, 2, 3), shapes));
    assertEquals(List.of(List.of(5L, 3L), List.of(5L, 3L)),
        planOf(new Param("w", 5, 6).rowSplits(Fan.IN_OUT, 3), shapes));
    assertContains(
        message(ShampooException.Invalid.class, () -> new Param("w", 9).rowSplits(Fan.OUT_IN, 1, 1, 1, 1, 1, 1, 1, 1, 1)),
        "row splits");
  }

  @Test
  void wrongDescriptionsAreRejectedByThePlan() {
    try (Config config = new Config();
        Plan plan = new Plan(config)) {
      plan.addParam("w", 4);
      assertContains(message(ShampooException.Invalid.class, () -> plan.addParam("w", 4)), "w");
      assertThrows(ShampooException.Invalid.class, () -> plan.addParam("", 4));
      assertThrows(ShampooException.Invalid.class, () -> plan.addParam("x", -1));
      assertThrows(ShampooException.Invalid.class, () -> plan.addParam(new Param("x", 4).group(1)));
      assertThrows(ShampooException.Invalid.class, () -> plan.addParam(new Param("x", 4).dtype(DType.I32)));
      assertContains(message(ShampooException.Invalid.class, () -> new Param("nine", 1, 1, 1, 1, 1, 1, 1, 1, 1)), "nine");
      Param cut = new Param("cut", 4, 6).rectangle(new long[] {0, 2}, new long[] {3});
      assertContains(
          message(ShampooException.Invalid.class, () -> plan.addParam(cut)),
          "the number of offsets of the rectangle is 2, and the number of its extents is 1; expected 2 for both");
      assertContains(message(ShampooException.Invalid.class, () -> plan.addShard(0, 0, cut)), "expected 1 for both");
      assertThrows(ShampooException.Invalid.class, () -> plan.addShard(9, 0, new Param("w", 4).flatShard(0, 4)));
      assertThrows(ShampooException.Invalid.class, () -> new Plan(config, new PlanOptions().replica(2, 2)));
      assertThrows(ShampooException.Invalid.class, () -> new Plan(config, new PlanOptions().threads(-1)));
      assertEquals(1, plan.params().size());
    }
  }

  @Test
  void shardsOfOtherRanksAreDescribed() {
    try (Config config = new Config().set("shard_mode", "gather");
        Plan plan = new Plan(config, new PlanOptions().shard(0, 2))) {
      int index = plan.addParam(new Param("w", 10).flatShard(0, 3));
      plan.addShard(index, 1, new Param("w", 10).flatShard(3, 7));
      plan.finish();
      assertFalse(plan.blocks().get(0).ofShard());
    }
    try (Config config = new Config();
        Plan plan = new Plan(config, new PlanOptions().shard(0, 2))) {
      plan.addParam(new Param("w", 4, 6).rectangle(new long[] {0, 2}, new long[] {4, 4}));
      assertEquals(16, plan.finish().params().get(0).localElements());
      assertTrue(plan.blocks().get(0).ofShard());
    }
  }

  @Test
  void namesAreUtf8() {
    String name = "größe \ud83d\ude00 権";
    try (Config config = new Config();
        Plan plan = new Plan(config)) {
      plan.addParam(name, 4);
      try (Optimizer optimizer = new Optimizer(plan.finish())) {
        assertContains(optimizer.stateEntries().toString(), name);
        assertContains(message(ShampooException.State.class, optimizer::step), name);
      }
    }
  }

  private static void warn() {
    try (Config config = new Config().set("use_nesterov", true);
        Plan plan = new Plan(config)) {
      plan.finish();
    }
  }

  @Test
  void logMessagesReachTheCallback() throws InterruptedException {
    List<String> messages = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    Shampoo.setLog(
        (level, message) -> {
          messages.add(level + " " + message);
          threads.add(Thread.currentThread());
        }, LogLevel.WARNING);
    try {
      warn();
      assertEquals(1, messages.size());
      assertContains(messages.get(0), "WARNING");
      assertContains(messages.get(0), "nesterov");
      assertEquals(0, Foreign.warn()); // on a thread that is not attached to the JVM
      assertEquals(2, messages.size());
      assertFalse(threads.get(1).isAlive() && threads.get(1) == Thread.currentThread());
      Shampoo.setLog((level, message) -> messages.add(message), LogLevel.ERROR);
      warn();
      assertThrows(RuntimeException.class, () -> Raw.shampoo_set_log(null, 9));
      assertEquals(2, messages.size());
    } finally {
      Shampoo.setLog(null, LogLevel.ERROR);
    }
    warn();
    assertEquals(2, messages.size());
  }

  @Test
  void aRejectedLogLevelKeepsThePreviousCallback() {
    List<String> messages = new ArrayList<>();
    Shampoo.setLog((level, message) -> messages.add(message), LogLevel.WARNING);
    try {
      assertThrows(ShampooException.Invalid.class, () -> Raw.shampoo_set_log((level, message) -> {}, 9));
      warn();
      assertEquals(1, messages.size());
    } finally {
      Shampoo.setLog(null, LogLevel.ERROR);
    }
  }

  @Test
  void anExceptionInALogCallbackDoesNotFailTheCall() {
    List<Throwable> reported = new ArrayList<>();
    Thread.currentThread().setUncaughtExceptionHandler((thread, thrown) -> reported.add(thrown));
    Shampoo.setLog(
        (level, message) -> {
          throw new AssertionError(message);
        }, LogLevel.DEBUG);
    try {
      warn();
      assertEquals(1, reported.size());
      assertContains(reported.get(0).getMessage(), "nesterov");
    } finally {
      Shampoo.setLog(null, LogLevel.ERROR);
      Thread.currentThread().setUncaughtExceptionHandler(null);
    }
  }

  @Test
  void theInverseRootOfADiagonalMatrixIsComputed() {
    FloatBuffer a = Buffers.floats(16, 0, 0, 81);
    FloatBuffer x = Buffers.filled(4, 7);
    try (Config config = new Config().set("epsilon", 0)) {
      RootInfo info = Shampoo.inverseRoot(config, 2, DType.F32, a, x, 4, 1);
      assertEquals(1, info.method());
      assertEquals(1, info.converged());
      assertArrayEquals(new float[] {0.5f, 0, 0, 1 / 3f}, Buffers.copy(x), 1e-6f);
      assertTrue(info.residual() < 1e-5);
      float[] before = Buffers.copy(x);
      a.put(0, Float.NaN);
      assertThrows(ShampooException.Numeric.class, () -> Shampoo.inverseRoot(config, 2, DType.F32, a, x, 4, 1));
      assertThrows(ShampooException.Invalid.class, () -> Shampoo.inverseRoot(config, 2, DType.F32, a, x, 0, 1));
      assertThrows(ShampooException.Invalid.class, () -> Shampoo.inverseRoot(config, 3, DType.F32, a, x, 4, 1));
      assertThrows(ShampooException.Invalid.class, () -> Shampoo.inverseRoot(config, 2, DType.F64, a, x, 4, 1));
      assertArrayEquals(before, Buffers.copy(x));
    }
  }

  @Test
  void aDiagonalMatrixIsOrthogonalized() {
    FloatBuffer a = Buffers.floats(3, 0, 0, 0, 0, -0.25f);
    FloatBuffer x = Buffers.filled(6, 7);
    try (Config config = new Config().set("method", "muon").set("orthogonalization", "exact")) {
      Shampoo.orthogonalize(config, 2, 3, DType.F32, a, x);
      assertArrayEquals(new float[] {1, 0, 0, 0, 0, -1}, Buffers.copy(x), 1e-6f);
      float[] before = Buffers.copy(x);
      a.put(0, Float.NaN);
      assertThrows(ShampooException.Numeric.class, () -> Shampoo.orthogonalize(config, 2, 3, DType.F32, a, x));
      assertThrows(ShampooException.Invalid.class, () -> Shampoo.orthogonalize(config, 3, 3, DType.F32, a, x));
      assertThrows(ShampooException.Invalid.class, () -> Shampoo.orthogonalize(config, 2, 3, DType.F64, a, x));
      assertArrayEquals(before, Buffers.copy(x));
    }
  }
}
