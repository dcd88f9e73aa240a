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
 * Loads the native libraries from the first of these places:
 *
 * <ol>
 *   <li>the folder that the property io.github.libshampoo.library.path names, if the property is set;
 *   <li>the jar, if it has libraries for this platform; they are copied to a temporary folder that is deleted at exit;
 *   <li>the folders in java.library.path.
 * </ol>
 */
final class Library {
  static final String PROPERTY = "io.github.libshampoo.library.path";
  static final String NATIVE = "libshampoo_java.so";

  /**
   * Libraries in the jar. Java loads only libshampoo_java.so (NATIVE). The dynamic linker loads libshampoo.so.0 from
   * the same folder, and libshampoo.so.0 loads libshampoo_cuda.so from it. libshampoo_cuda.so is optional.
   */
  private static final List<String> FILES = List.of("libshampoo.so.0", NATIVE, "libshampoo_cuda.so");

  private Library() {}

  static native int headerVersion();

  static native int libraryVersion();

  /** Loads the libraries. The class RawJNI, which SWIG generates, calls this method once: when RawJNI is first used. */
  static void load() {
    String folder = System.getProperty(PROPERTY);
    if (folder != null) {
      open(Path.of(folder).toAbsolutePath().resolve(NATIVE), " (the property " + PROPERTY + " sets the folder)");
    } else if (isBundled()) {
      open(extract().resolve(NATIVE), "");
    } else {
      try {
        System.loadLibrary("shampoo_java");
      } catch (UnsatisfiedLinkError error) {
        throw failure(
            error.getMessage() + "; this jar has no library for " + platform() + " either. Set the property " + PROPERTY
                + " to a folder that contains " + NATIVE, error);
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

  /**
   * Returns the dynamic linker's message, then the suffix `from`. If the message means that the file is on a file
   * system that is mounted noexec, adds the remedy.
   */
  static String explain(String message, Path file, String from) {
    String text = message + from;
    if (message.contains("failed to map segment")) {
      text +=
          ": the folder " + file.getParent() + " is on a file system that is mounted noexec: set the property "
              + "java.io.tmpdir to a folder on another file system, or set the property " + PROPERTY
              + " to a folder that contains the libraries";
    }
    return text;
  }

  static void checkVersions(int header, int library) {
    int own =
        RawConstants.SHAMPOO_VERSION_MAJOR * 10000 + RawConstants.SHAMPOO_VERSION_MINOR * 100
            + RawConstants.SHAMPOO_VERSION_PATCH;
    if (library != own || header != own) {
      throw new UnsatisfiedLinkError(
          "the Java classes were compiled for libshampoo " + toText(own) + ", and the loaded library is "
              + toText(library) + (header != own ? ", and " + NATIVE + " was compiled for " + toText(header) : "")
              + "; use a jar and native libraries of the same version");
    }
  }

  static String toText(int version) {
    return version / 10000 + "." + version / 100 % 100 + "." + version % 100;
  }

  /** Copies the libraries from the jar to a new temporary folder. */
  private static Path extract() {
    Path folder = null;
    try {
      folder = Files.createTempDirectory("libshampoo-");
      List<Path> created = new ArrayList<>();
      created.add(folder);
      Runtime.getRuntime().addShutdownHook(new Thread(() -> delete(created)));
      for (String file : FILES) {
        try (InputStream in = Library.class.getResourceAsStream(resource(file))) {
          if (in != null) {
            created.add(folder.resolve(file));
            Files.copy(in, folder.resolve(file));
          }
        }
      }
      return folder;
    } catch (IOException error) {
      throw failure(
          "the libraries in the jar cannot be copied into " + (folder != null ? folder : System.getProperty("java.io.tmpdir"))
              + ": " + error + "; set the property java.io.tmpdir to a writable folder, or the property " + PROPERTY
              + " to a folder that contains the libraries", error);
    }
  }

  /** Deletes the files of a list, then their folder, which is the first element of the list. */
  private static void delete(List<Path> created) {
    for (int index = created.size() - 1; index >= 0; --index) {
      try {
        Files.deleteIfExists(created.get(index));
      } catch (IOException error) {
        // Ignored, because the operating system cleans its temporary folder.
      }
    }
  }
}
