// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

import java.util.List;
import java.util.Locale;
import java.util.function.DoubleUnaryOperator;

/** The curves as SVG: losses by powers of ten, and accuracies from 80 % on. */
final class Picture {
  private static final String[] COLORS = {"#1f6fb4", "#d1602f"};
  private static final int WIDTH = 320;
  private static final int TOP = 70;
  private static final int HEIGHT = 240;

  private final StringBuilder svg = new StringBuilder();

  private Picture() {}

  static void write(String path, List<Curve> curves) {
    Picture picture = new Picture();
    picture.add("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 350\" font-family=\"sans-serif\" font-size=\"12\">");
    picture.add("<rect width=\"800\" height=\"350\" fill=\"white\"/>");
    picture.add("<text x=\"56\" y=\"26\" font-size=\"16\" font-weight=\"bold\">Handwritten digits, 64-128-64-10, in Java</text>");
    DoubleUnaryOperator powers = loss -> Math.min(Math.max((Math.log10(loss) + 3) / 4, 0), 1);
    DoubleUnaryOperator shares = share -> Math.max(5 * share - 4, 0);
    picture.panel(56, "training loss", List.of("0.001", "0.01", "0.1", "1", "10"), curves, false, powers);
    picture.panel(456, "test accuracy", List.of("80 %", "85 %", "90 %", "95 %", "100 %"), curves, true, shares);
    picture.add("</svg>");
    Report.write(path, picture.svg.toString());
  }

  private void add(String format, Object... values) {
    svg.append(String.format(Locale.ROOT, format, values)).append('\n');
  }

  private static double y(double height) {
    return TOP + HEIGHT * (1 - height);
  }

  /** height: where in [0, 1] a number stands, 1 at the top; marks are evenly spaced. */
  private void panel(
      int left, String title, List<String> marks, List<Curve> curves, boolean accuracy, DoubleUnaryOperator height) {
    add("<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>", left, TOP - 12, title);
    for (int m = 0; m < marks.size(); ++m) {
      double y = y((double) m / (marks.size() - 1));
      add("<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>", left, y, left + WIDTH, y);
      add("<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>", left - 6, y + 4, marks.get(m));
    }
    for (int c = curves.size() - 1; c >= 0; --c) { // the first comes last, on top
      double[] values = accuracy ? curves.get(c).accuracy : curves.get(c).loss;
      StringBuilder points = new StringBuilder();
      for (int e = 0; e < values.length && Double.isFinite(values[e]); ++e) {
        double x = left + (double) WIDTH * e / (values.length - 1);
        points.append(String.format(Locale.ROOT, "%.1f,%.1f ", x, y(height.applyAsDouble(values[e]))));
      }
      add("<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>", points, COLORS[c]);
      add("<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>", left + 230, TOP + 110 + 18 * c, COLORS[c], curves.get(c).name);
    }
    add("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">epochs, 0 to %d</text>", left + WIDTH / 2, TOP + HEIGHT + 24,
        curves.get(0).loss.length - 1);
  }
}
