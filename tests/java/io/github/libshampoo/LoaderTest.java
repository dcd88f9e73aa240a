// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the contents of the jar, and from which folders the Java classes load the native libraries. */
class LoaderTest {
  private static final String VERSION = System.getProperty("shampoo.version");
  private static final Path SOURCE = Path.of(System.getProperty("shampoo.source"));
  private static final String JAR = System.getProperty("shampoo.jar");

  private static final String NATIVE = "io/github/libshampoo/native/linux-" + System.getProperty("os.arch") + "/";

  @TempDir Path folder;

  private String run(List<String> command, Map<String, String> environment) throws Exception {
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).directory(folder.toFile());
    builder.environment().clear();
    builder.environment().putAll(environment);
    Process process = builder.start();
    String output = new String(process.getInputStream().readAllBytes());
    assertEquals(0, process.waitFor(), output);
    return output;
  }

  private static List<String> childCommand(String... options) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-Xmx32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
    command.addAll(List.of(options));
    command.addAll(List.of("-cp", JAR + ":" + System.getProperty("shampoo.classes"), "io.github.libshampoo.Child"));
    return command;
  }

  private String child(Map<String, String> environment, String... options) throws Exception {
    return run(childCommand(options), environment);
  }

  private static void assertContains(String text, String part) {
    assertTrue(text.contains(part), text);
  }

  private Path unpacked() throws IOException {
    Path out = Files.createDirectories(folder.resolve("unpacked"));
    try (JarFile jar = new JarFile(JAR)) {
      for (String name : List.of("libshampoo.so.0", "libshampoo_java.so")) {
        try (InputStream in = jar.getInputStream(jar.getEntry(NATIVE + name))) {
          Files.copy(in, out.resolve(name));
        }
      }
    }
    return out;
  }

  @Test
  void theJarNeedsNoOtherFilesAndLeavesNoneBehind() throws Exception {
    Path temporary = Files.createDirectories(folder.resolve("temporary"));
    assertEquals("version " + VERSION, child(Map.of(), "-Djava.io.tmpdir=" + temporary).strip());
    try (Stream<Path> left = Files.list(temporary)) {
      assertEquals(List.of(), left.toList());
    }
  }

  @Test
  void theFolderInThePropertyIsSearchedFirst() throws Exception {
    String property = "-Dio.github.libshampoo.library.path=";
    String output = child(Map.of(), property + folder);
    assertContains(output, "rejected: ");
    assertContains(output, folder.toString());
    assertContains(output, "io.github.libshampoo.library.path");
    // With the property, nothing is copied to the temporary folder.
    assertContains(child(Map.of(), property + unpacked(), "-Djava.io.tmpdir=/nowhere"), "version " + VERSION);
  }

  @Test
  void theErrorNamesAPlatformThatIsNotInTheJar() throws Exception {
    String output = child(Map.of(), "-Dos.arch=s390x");
    assertContains(output, "no library for linux-s390x");
    assertContains(output, "io.github.libshampoo.library.path");
    assertContains(child(Map.of(), "-Dos.arch=s390x", "-Djava.library.path=" + unpacked()), "version " + VERSION);
  }

  @Test
  void theErrorNamesAFolderThatCannotBeWritten() throws Exception {
    String output = child(Map.of(), "-Djava.io.tmpdir=" + folder.resolve("none"));
    assertContains(output, folder.resolve("none").toString());
    assertContains(output, "set the property java.io.tmpdir");
  }

  @Test
  void explainAddsARemedyForAFolderMountedNoexec() throws Exception {
    String failure = "/tmp/x/libshampoo_java.so: /tmp/x/libshampoo_java.so: failed to map segment from shared object";
    String text = Library.explain(failure, Path.of("/tmp/x/libshampoo_java.so"), "");
    assertContains(text, "the folder /tmp/x is on a file system that is mounted noexec: set the property java.io.tmpdir");
    assertEquals("other", Library.explain("other", Path.of("/tmp/x/libshampoo_java.so"), ""));
  }

  /** Mounts a noexec file system in a new mount namespace. The test is skipped if the machine does not allow this. */
  @Test
  void theErrorExplainsAFolderMountedNoexec() throws Exception {
    Path mounted = Files.createDirectories(folder.resolve("mounted"));
    String mount = "mount -t tmpfs -o noexec none " + mounted;
    Map<String, String> environment = Map.of("PATH", System.getenv("PATH"));
    String can = run(List.of("sh", "-c", "unshare -rm sh -c '" + mount + "' && echo yes || true"), environment);
    Assumptions.assumeTrue(can.endsWith("yes\n"), can);
    List<String> command = childCommand("-Djava.io.tmpdir=" + mounted);
    String output = run(List.of("unshare", "-rm", "sh", "-c", mount + " && exec " + String.join(" ", command)), environment);
    assertContains(output, "mounted noexec: set the property java.io.tmpdir");
  }

  /** Compiles a library that exports the functions of libshampoo and reports the version 0.7.3. */
  private Path other() throws Exception {
    StringBuilder source = new StringBuilder();
    for (String name : Files.readAllLines(SOURCE.resolve("tests/capi/exports.txt"))) {
      if (name.startsWith("shampoo_")) {
        source.append("int " + name + "(void) { return " + (name.equals("shampoo_version") ? 703 : 0) + "; }\n");
      }
    }
    Files.writeString(folder.resolve("other.c"), source);
    Files.writeString(folder.resolve("map"), "SHAMPOO_0 { global: shampoo_*; };\n");
    Path library = folder.resolve("libshampoo.so.0");
    List<String> command =
        List.of("cc", "-shared", "-fPIC", "-w", "-Wl,--version-script=map", "-Wl,-soname,libshampoo.so.0", "other.c", "-o",
            library.toString());
    run(command, Map.of("PATH", System.getenv("PATH")));
    return library;
  }

  @Test
  void aLibraryOfAnotherVersionIsRejected() throws Exception {
    Path other = other();
    // The library of the jar is loaded regardless of LD_LIBRARY_PATH.
    assertContains(child(Map.of("LD_LIBRARY_PATH", folder.toString())), "version " + VERSION);
    String loaded = child(Map.of("LD_PRELOAD", other.toString()));
    assertContains(loaded, "rejected: the Java classes were compiled for libshampoo " + VERSION);
    assertContains(loaded, "is 0.7.3");
    Path unpacked = unpacked();
    Files.move(other, unpacked.resolve("libshampoo.so.0"), java.nio.file.StandardCopyOption.REPLACE_EXISTING);
    assertContains(child(Map.of(), "-Dio.github.libshampoo.library.path=" + unpacked), "is 0.7.3");
    assertThrows(UnsatisfiedLinkError.class, () -> Library.checkVersions(703, Raw.shampoo_version()));
  }

  @Test
  void theJarHasItsLicenses() throws IOException {
    try (JarFile jar = new JarFile(JAR)) {
      for (String name : List.of("LICENSE", "THIRD_PARTY_NOTICES")) {
        byte[] packed = jar.getInputStream(jar.getEntry("META-INF/" + name)).readAllBytes();
        assertEquals(Files.readString(SOURCE.resolve(name)), new String(packed));
      }
      // With debug information, the library would be larger than this limit.
      assertTrue(jar.getEntry(NATIVE + "libshampoo.so.0").getSize() < 40 << 20);
    }
  }

  /** Checks the version of libshampoo in the Maven files and in docs/java.md. */
  @Test
  void versionsAgreeWithTheHeader() throws IOException {
    for (String file : List.of("bindings/java/pom.xml", "examples/java_digits/pom.xml", "docs/java.md")) {
      String text = Files.readString(SOURCE.resolve(file));
      Matcher found = Pattern.compile("<artifactId>libshampoo</artifactId>\\s*<version>([^<]*)</version>").matcher(text);
      assertTrue(found.find(), file);
      assertEquals(VERSION, found.group(1), file);
      assertFalse(found.find(), file);
    }
  }
}
