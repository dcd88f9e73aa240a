// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Loads the native libraries: those of the folder that the property io.github.libshampoo.library.path names; or those in the jar,
 * which are copied into a folder of their own that is removed at exit; or what java.library.path has.
 */
final class Library {
  static final String PROPERTY = "io.github.libshampoo.library.path";
  static final String NATIVE = "libshampoo_java.so";

  /** In the jar, in the order of copying: what the first needs lies beside it. The last is there in jars for CUDA only. */
  private static final List<String> FILES = List.of("libshampoo.so.0", NATIVE, "libshampoo_cuda.so");

  private Library() {}

  static native int headerVersion();

  static native int libraryVersion();

  /** Called once, when the raw layer is first used. */
  static void load() {
    String folder = System.getProperty(PROPERTY);
    if (folder != null) {
      open(Path.of(folder).toAbsolutePath().resolve(NATIVE), " (from the property " + PROPERTY + ")");
    } else if (isBundled()) {
      open(extract().resolve(NATIVE), "");
    } else {
      try {
        System.loadLibrary("shampoo_java");
      } catch (UnsatisfiedLinkError error) {
        throw failure(
            error.getMessage() + ": this jar has no library for " + platform() + ": name a folder with " + NATIVE
                + " by the property " + PROPERTY, error);
      }
    }
    checkVersions(headerVersion(), libraryVersion());
  }

  private static String platform() {
    return System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-" + System.getProperty("os.arch");
  }

  private static String resource(String file) {
    return "native/" + platform() + "/" + file;
  }

  private static boolean isBundled() {
    return Library.class.getResource(resource(NATIVE)) != null;
  }

  private static UnsatisfiedLinkError failure(String text, Throwable cause) {
    UnsatisfiedLinkError error = new UnsatisfiedLinkError(text);
    error.initCause(cause);
    return error;
  }

  private static void open(Path file, String from) {
    try {
      System.load(file.toString());
    } catch (UnsatisfiedLinkError error) {
      throw failure(explain(error.getMessage(), file, from), error);
    }
  }

  /** What the linker says, and what to do about it. */
  static String explain(String told, Path file, String from) {
    String text = told + from;
    if (told.contains("failed to map segment")) {
      text +=
          ": the folder " + file.getParent() + " is on a file system that is mounted noexec: set the property "
              + "java.io.tmpdir to a folder on another, or " + PROPERTY + " to a folder with the libraries";
    }
    return text;
  }

  static void checkVersions(int header, int library) {
    int own =
        RawConstants.SHAMPOO_VERSION_MAJOR * 10000 + RawConstants.SHAMPOO_VERSION_MINOR * 100
            + RawConstants.SHAMPOO_VERSION_PATCH;
    if (library != own || header != own) {
      throw new UnsatisfiedLinkError(
          "these classes were compiled for libshampoo " + spelt(own) + ", and the library that was loaded is "
              + spelt(library) + (header != own ? ", " + NATIVE + " was made for " + spelt(header) : "")
              + ": take a jar and a library of one version");
    }
  }

  static String spelt(int version) {
    return version / 10000 + "." + version / 100 % 100 + "." + version % 100;
  }

  private static Path extract() {
    Path folder = null;
    try {
      folder = Files.createTempDirectory("libshampoo-");
      List<Path> made = new ArrayList<>();
      made.add(folder);
      Runtime.getRuntime().addShutdownHook(new Thread(() -> remove(made)));
      for (String file : FILES) {
        try (InputStream in = Library.class.getResourceAsStream(resource(file))) {
          if (in != null) {
            made.add(folder.resolve(file));
            Files.copy(in, folder.resolve(file));
          }
        }
      }
      return folder;
    } catch (IOException error) {
      throw failure(
          "the libraries in the jar cannot be copied into " + (folder != null ? folder : System.getProperty("java.io.tmpdir"))
              + ": " + error + ": set the property java.io.tmpdir to a folder that can be written, or " + PROPERTY
              + " to a folder with the libraries", error);
    }
  }

  /** The folder comes first in the list, and goes last. */
  private static void remove(List<Path> made) {
    for (int index = made.size() - 1; index >= 0; --index) {
      try {
        Files.deleteIfExists(made.get(index));
      } catch (IOException error) {
        // The system's own cleaning of its temporary folder is left to do it.
      }
    }
  }
}
