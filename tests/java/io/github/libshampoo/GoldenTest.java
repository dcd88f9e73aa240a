// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Checks that recorded trajectories give bit-identical results in Java and in C. A tape is a file with a recorded
 * trajectory (tests/golden/tapes.py).
 */
class GoldenTest {
  static List<String> tapes() throws IOException {
    try (Stream<Path> files = Files.list(Path.of(System.getProperty("shampoo.tapes")))) {
      return files.map(Path::toString).filter(name -> name.endsWith(".tape")).sorted().toList();
    }
  }

  @Test
  void allRecordedCasesAreFound() throws IOException {
    assertEquals(217, tapes().size());
  }

  @ParameterizedTest
  @MethodSource("tapes")
  void trajectoryIsBitIdenticalToC(String tape) throws IOException {
    assertTrue(new Tape(Path.of(tape)).replay() > 0);
  }
}
