// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/** Prints the progress line and the table of results, and writes the results to a CSV file. */
final class Report {
  private static final int BAR = 40;

  private Report() {}

  static void print(String format, Object... values) {
    System.out.print(String.format(Locale.ROOT, format, values));
    System.out.flush();
  }

  /** Shows the progress line if the program runs on a terminal. */
  static void showProgress(int step, int steps) {
    if (System.console() != null) {
      int done = (int) ((double) step / steps * BAR);
      print("\r\033[K%s%s step %d of %d", "#".repeat(done), ".".repeat(BAR - done), step, steps);
    }
  }

  private static void clearProgress() {
    if (System.console() != null) {
      print("\r\033[K");
    }
  }

  static void showHead() {
    print("%n         training loss         test accuracy%nepoch    Shampoo     AdamW    Shampoo     AdamW%n");
  }

  static void showEpoch(int epoch, List<Curve> curves) {
    clearProgress();
    Curve shampoo = curves.get(0);
    Curve adamw = curves.get(1);
    print(
        "%5d  %9.5f %9.5f  %7.2f %% %7.2f %%%n", epoch, shampoo.loss[epoch], adamw.loss[epoch],
        100 * shampoo.accuracy[epoch], 100 * adamw.accuracy[epoch]);
  }

  static void showTimes(int steps, List<Curve> curves) {
    print("%nmean time of a step    gradient   optimizer       whole%n");
    for (Curve curve : curves) {
      double gradient = 1e-6 * curve.gradientNanos / steps;
      double update = 1e-6 * curve.updateNanos / steps;
      print("%-19s %8.3f ms %8.3f ms %8.3f ms%n", curve.name, gradient, update, gradient + update);
    }
  }

  static void write(String path, String text) {
    try {
      Files.writeString(Path.of(path), text);
    } catch (IOException error) {
      throw new Failure(path + " cannot be written: " + error);
    }
  }

  static void writeCsv(String path, List<Curve> curves) {
    Curve shampoo = curves.get(0);
    Curve adamw = curves.get(1);
    StringBuilder csv = new StringBuilder("epoch,shampoo_train_loss,adamw_train_loss,");
    csv.append("shampoo_test_accuracy,adamw_test_accuracy\n");
    for (int e = 0; e < shampoo.loss.length; ++e) {
      csv.append(e + "," + shampoo.loss[e] + "," + adamw.loss[e]);
      csv.append("," + shampoo.accuracy[e] + "," + adamw.accuracy[e] + "\n");
    }
    write(path, csv.toString());
  }
}
