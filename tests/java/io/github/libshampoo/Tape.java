// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Replays a tape: a recorded trajectory in two files. tests/golden/tapes.py describes the format of these files. */
final class Tape {
  private final List<String> lines;
  private final ByteBuffer data;
  private final TreeMap<Integer, Config> configs = new TreeMap<>();
  private final Map<String, Integer> indices = new HashMap<>();
  private final List<Param> params = new ArrayList<>();
  private final List<ByteBuffer> values = new ArrayList<>();
  private final List<ByteBuffer> grads = new ArrayList<>();
  private Optimizer optimizer;

  Tape(Path file) throws IOException {
    lines = Files.readAllLines(file);
    byte[] bytes = Files.readAllBytes(Path.of(file.toString().replace(".tape", ".bin")));
    data = Buffers.bytes(bytes.length).put(bytes).flip();
  }

  private ByteBuffer next(int bytes) {
    ByteBuffer part = data.slice(data.position(), bytes).order(ByteOrder.nativeOrder());
    data.position(data.position() + bytes);
    // Return a copy, because steps overwrite parameters, and because bound memory must be aligned for its dtype.
    return Buffers.bytes(bytes).put(part).flip();
  }

  /**
   * Executes the lines of the tape, and returns the number of "expect" lines. Throws if a parameter is not
   * bit-identical to the recorded one.
   */
  int replay() {
    int compared = 0;
    for (String line : lines) {
      String[] words = line.split(" ");
      switch (words[0]) {
        case "key" -> configs.computeIfAbsent(Integer.valueOf(words[1]), group -> new Config()).set(words[2], words[3]);
        case "param" -> addParam(words);
        case "lr" -> optimizer().set(Integer.parseInt(words[1]), "lr", Double.parseDouble(words[2]));
        case "grad" -> {
          int index = indices.get(words[1]);
          grads.set(index, next(values.get(index).capacity()));
        }
        case "step" -> step();
        case "expect" -> {
          ByteBuffer value = values.get(indices.get(words[1])).rewind();
          if (value.mismatch(next(value.capacity())) >= 0) {
            throw new AssertionError(line + " after " + optimizer.stat("steps") + " steps: not bit-identical");
          }
          ++compared;
        }
        default -> throw new AssertionError(line);
      }
    }
    if (data.hasRemaining()) {
      throw new AssertionError(data.remaining() + " bytes of the .bin file are left over");
    }
    optimizer.close();
    return compared;
  }

  private void addParam(String[] words) {
    long[] shape = new long[words.length - 4];
    long bytes = DType.valueOf(words[3].toUpperCase()).bytes();
    for (int dim = 0; dim < shape.length; ++dim) {
      shape[dim] = Long.parseLong(words[dim + 4]);
      bytes *= shape[dim];
    }
    indices.put(words[1], params.size());
    params.add(new Param(words[1], shape).dtype(DType.valueOf(words[3].toUpperCase())).group(Integer.parseInt(words[2])));
    values.add(next((int) bytes));
    grads.add(null);
  }

  private Optimizer optimizer() {
    if (optimizer == null) {
      try (Plan plan = new Plan(configs.get(0), new PlanOptions().threads(2))) {
        configs.tailMap(1).values().forEach(plan::addGroup);
        params.forEach(plan::addParam);
        optimizer = new Optimizer(plan.finish());
      }
      configs.values().forEach(Config::close);
    }
    return optimizer;
  }

  private void step() {
    List<Binding> bindings = new ArrayList<>();
    for (int index = 0; index < values.size(); ++index) {
      bindings.add(Binding.inPlace(values.get(index).rewind(), grads.get(index)));
      grads.set(index, null);
    }
    optimizer().bind(0, bindings);
    optimizer.step();
  }
}
