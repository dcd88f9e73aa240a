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

/** Checks that the code in docs/java.md compiles without warnings and runs. */
class DocsTest {
  @TempDir Path folder;

  private static final String JAR = System.getProperty("shampoo.jar");

  private static List<String> blocks() throws IOException {
    String page = Files.readString(Path.of(System.getProperty("shampoo.source"), "docs", "java.md"));
    Matcher matcher = Pattern.compile("^```java\n(.*?)^```", Pattern.DOTALL | Pattern.MULTILINE).matcher(page);
    List<String> found = new ArrayList<>();
    while (matcher.find()) found.add(matcher.group(1));
    assertTrue(found.size() >= 10, found.size() + " blocks");
    return found;
  }

  /** Returns whether a code block is a complete program. */
  private static boolean isWhole(String block) {
    return block.contains("public static void main(");
  }

  /** Joins the incomplete code blocks to a program: imports first, methods in the class, everything else in main. */
  private static String guide() throws IOException {
    StringBuilder imports = new StringBuilder();
    StringBuilder methods = new StringBuilder();
    StringBuilder main = new StringBuilder();
    for (String block : blocks()) {
      if (isWhole(block)) continue;
      (block.startsWith("import") ? imports : block.startsWith("static") ? methods : main).append(block);
    }
    return imports + "public final class Guide {\n" + methods + "public static void main(String[] args) throws Exception {\n"
        + main + "}\n}\n";
  }

  private void compile(String name, String program) throws IOException {
    Path source = folder.resolve(name + ".java");
    Files.writeString(source, program);
    String[] options = {
      "--release", "17", "-Xlint:all", "-Werror", "-cp", JAR, "-d", folder.toString(), source.toString()
    };
    assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, options));
  }

  private String run(String name, List<String> paths) throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    List<String> command = new ArrayList<>(List.of(java, "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
    command.addAll(paths);
    command.add(name);
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes());
    assertEquals(0, process.waitFor(), output);
    return output;
  }

  @Test
  void theGuideRuns() throws Exception {
    compile("Guide", guide());
    // Run the program with the jar on the class path, and then on the module path, which no other test uses.
    List<String> modules = List.of("-p", JAR, "--add-modules", "io.github.libshampoo", "-cp", folder.toString());
    for (List<String> paths : List.of(List.of("-cp", folder + ":" + JAR), modules)) {
      String output = run("Guide", paths);
      assertTrue(output.contains("bias"), output);
    }
  }

  @Test
  void theFirstProgramPrintsValuesNear0() throws Exception {
    List<String> programs = new ArrayList<>(blocks());
    programs.removeIf(block -> !isWhole(block));
    assertEquals(1, programs.size());
    compile("Minimal", programs.get(0));
    String output = run("Minimal", List.of("-cp", folder + ":" + JAR));
    List<String> values = Pattern.compile("= (.+)\n").matcher(output).results().map(found -> found.group(1)).toList();
    assertEquals(6, values.size(), output);
    for (String value : values) {
      assertTrue(Math.abs(Double.parseDouble(value)) < 0.5, output);
    }
  }
}
