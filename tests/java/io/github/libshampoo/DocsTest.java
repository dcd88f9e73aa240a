// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What docs/java.md shows is true: it compiles without a warning, and runs. */
class DocsTest {
  @TempDir Path folder;

  /** Blocks of imports come first; blocks of methods stand in the class; all others are its main. */
  private static String program() throws IOException {
    String page = Files.readString(Path.of(System.getProperty("shampoo.source"), "docs", "java.md"));
    Matcher blocks = Pattern.compile("^```java\n(.*?)^```", Pattern.DOTALL | Pattern.MULTILINE).matcher(page);
    StringBuilder imports = new StringBuilder();
    StringBuilder methods = new StringBuilder();
    StringBuilder main = new StringBuilder();
    int count = 0;
    while (blocks.find()) {
      String block = blocks.group(1);
      (block.startsWith("import") ? imports : block.startsWith("static") ? methods : main).append(block);
      ++count;
    }
    assertTrue(count >= 10, count + " blocks");
    return imports + "public final class Guide {\n" + methods + "public static void main(String[] args) throws Exception {\n"
        + main + "}\n}\n";
  }

  @Test
  void theGuideRuns() throws Exception {
    Path source = folder.resolve("Guide.java");
    Files.writeString(source, program());
    String jar = System.getProperty("shampoo.jar");
    String[] options = {
      "--release", "17", "-Xlint:all", "-Werror", "-cp", jar, "-d", folder.toString(), source.toString()
    };
    assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, options));
    // As a user would run it, and with the jar on the module path, which no other test has.
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    for (List<String> paths :
        List.of(List.of("-cp", folder + ":" + jar), List.of("-p", jar, "--add-modules", "io.github.libshampoo", "-cp", folder.toString()))) {
      List<String> command = new ArrayList<>(List.of(java, "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
      command.addAll(paths);
      command.add("Guide");
      Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
      String told = new String(process.getInputStream().readAllBytes());
      assertEquals(0, process.waitFor(), told);
      assertTrue(told.contains("bias"), told);
    }
  }
}
