// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "chart.h"

#include <math.h>

#include "check.h"

// Sizes in pixels. A panel is the frame between the axes; its labels stand around it.
enum {
  kWidth = 1040,
  kHeight = 470,
  kTop = 132,
  kPanelHeight = 274,
  kPanelWidth = 384,
  kPanelLeft0 = 66,
  kPanelLeft1 = 580
};

// Blue and vermilion: told apart by colour-blind people, too.
static const char* const kColors[kChartCurves] = {"#0072b2", "#d55e00"};

static void text(FILE* svg, double x, double y, const char* attributes, const char* content) {
  fprintf(svg, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes, content);
}

static double y_pixel(const ChartPanel* panel, double value) {
  const double part = panel->logarithmic ? log(value / panel->y_min) / log(panel->y_max / panel->y_min)
                                         : (value - panel->y_min) / (panel->y_max - panel->y_min);
  return kTop + kPanelHeight * (1 - part);
}

static double x_pixel(int left, int points, double x) { return left + kPanelWidth * x / (points - 1); }

static void draw_gridline(FILE* svg, const ChartPanel* panel, int left, double value) {
  char label[32];
  const double y = y_pixel(panel, value);
  snprintf(label, sizeof label, panel->format, value);
  fprintf(svg, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e6e6e6\"/>\n", left, y, left + kPanelWidth,
          y);
  text(svg, left - 9, y + 4, "class=\"tick\" text-anchor=\"end\"", label);
}

static void draw_y_axis(FILE* svg, const ChartPanel* panel, int left) {
  const double slack = 1e-9;  // of a gridline that should lie on the border and misses it by rounding
  if (!panel->logarithmic) {
    const int count = (int)floor((panel->y_max - panel->y_min) / panel->y_step + slack);
    for (int i = 0; i <= count; ++i) draw_gridline(svg, panel, left, panel->y_min + i * panel->y_step);
    return;
  }
  for (double decade = pow(10, floor(log10(panel->y_min))); decade <= panel->y_max; decade *= 10) {
    static const double kSteps[] = {1, 2, 5};
    for (int i = 0; i < 3; ++i) {
      const double value = decade * kSteps[i];
      if (value >= panel->y_min * (1 - slack) && value <= panel->y_max * (1 + slack)) {
        draw_gridline(svg, panel, left, value);
      }
    }
  }
}

static void draw_x_axis(FILE* svg, const Chart* chart, int left) {
  static const int kSteps[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000};
  const int last = chart->points - 1, bottom = kTop + kPanelHeight;
  int s = 0;
  char label[16];
  while (last / kSteps[s] > 8 && s + 1 < (int)(sizeof kSteps / sizeof kSteps[0])) ++s;
  for (int x = 0; x <= last; x += kSteps[s]) {
    const double pixel = x_pixel(left, chart->points, x);
    fprintf(svg, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#555\"/>\n", pixel, bottom, pixel,
            bottom + 5);
    snprintf(label, sizeof label, "%d", x);
    text(svg, pixel, bottom + 20, "class=\"tick\" text-anchor=\"middle\"", label);
  }
  fprintf(svg, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#555\"/>\n", left, bottom, left + kPanelWidth,
          bottom);
  text(svg, left + kPanelWidth / 2.0, bottom + 42, "class=\"axis\" text-anchor=\"middle\"", chart->x_title);
}

static void draw_curves(FILE* svg, const Chart* chart, const ChartPanel* panel, int left) {
  double ends[kChartCurves];
  fprintf(svg, "<clipPath id=\"frame%d\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n", left, left,
          kTop - 1, kPanelWidth, kPanelHeight + 2);
  for (int c = kChartCurves - 1; c >= 0; --c) {  // the first curve comes last, on top
    double y = kTop;
    fprintf(svg, "<polyline clip-path=\"url(#frame%d)\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" ", left,
            kColors[c]);
    fputs("stroke-linejoin=\"round\" points=\"", svg);
    for (int i = 0; i < chart->points; ++i) {
      const double next = y_pixel(panel, panel->y[c][i]);
      if (!isfinite(next)) break;  // the training blew up: the curve ends here
      fprintf(svg, "%.1f,%.1f ", x_pixel(left, chart->points, i), y = next);
    }
    fputs("\"/>\n", svg);
    ends[c] = fmin(fmax(y, kTop), kTop + kPanelHeight);
    fprintf(svg, "<circle cx=\"%d\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\"/>\n", left + kPanelWidth, ends[c], kColors[c]);
  }

  // The last values stand beside the ends of the curves, moved apart where they would cover each other.
  const double overlap = 15 - fabs(ends[0] - ends[1]), up = ends[0] <= ends[1] ? -1 : 1;
  if (overlap > 0) {
    ends[0] += up * overlap / 2;
    ends[1] -= up * overlap / 2;
  }
  for (int c = 0; c < kChartCurves; ++c) {
    char label[32], attributes[64];
    snprintf(label, sizeof label, panel->final_format, panel->y[c][chart->points - 1]);
    snprintf(attributes, sizeof attributes, "class=\"final\" fill=\"%s\"", kColors[c]);
    text(svg, left + kPanelWidth + 9, ends[c] + 4, attributes, label);
  }
}

void chart_write(const Chart* chart, const char* path) {
  static const int kLefts[2] = {kPanelLeft0, kPanelLeft1};
  FILE* svg = open_file(path, "w");
  fprintf(svg,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"\n"
          " font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\" font-size=\"13\" fill=\"#222\">\n"
          "<style>.tick{font-size:11.5px;fill:#555}.axis{font-size:12.5px;fill:#333}.head{font-size:14px;"
          "font-weight:bold}.note{font-size:12px;fill:#555}.final{font-size:12px;font-weight:bold}</style>\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
          kWidth, kHeight, kWidth, kHeight);
  text(svg, 24, 34, "font-size=\"19\" font-weight=\"bold\"", chart->title);
  for (int i = 0; i < 2; ++i) text(svg, 24, 57 + 18 * i, "class=\"note\"", chart->notes[i]);

  for (int c = 0; c < kChartCurves; ++c) {
    const double x = kWidth - 230 + 110 * c;
    fprintf(svg, "<line x1=\"%.1f\" y1=\"29\" x2=\"%.1f\" y2=\"29\" stroke=\"%s\" stroke-width=\"3\"/>\n", x, x + 24,
            kColors[c]);
    text(svg, x + 31, 33.5, "font-size=\"14\"", chart->curve_names[c]);
  }

  for (int p = 0; p < 2; ++p) {
    text(svg, kLefts[p], kTop - 14, "class=\"head\"", chart->panels[p].title);
    draw_y_axis(svg, &chart->panels[p], kLefts[p]);
    draw_x_axis(svg, chart, kLefts[p]);
    draw_curves(svg, chart, &chart->panels[p], kLefts[p]);
  }
  fputs("</svg>\n", svg);
  close_file(svg, path);
}
