// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "chart.h"

#include <math.h>

#include "check.h"

// Sizes in pixels. A panel is the frame between the axes; its labels stand around it.
enum { kWidth = 1040, kHeight = 490, kTop = 152, kPanelHeight = 274, kPanelWidth = 420 };
static const int kLefts[kChartPanels] = {66, 580};

// Told apart by colour-blind people, too.
static const char* const kColors[kChartCurves] = {"#d55e00", "#0072b2", "#56b4e9", "#009e73"};

typedef struct {
  double x_max[kChartPanels];
  double y_min, y_max;
} Frame;

static void text(FILE* svg, double x, double y, const char* attributes, const char* content) {
  fprintf(svg, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes, content);
}

// The smallest of 1, 2, 5 times a power of ten that divides `range` into at most `parts`.
static double pick_step(double range, int parts) {
  const double least = range / parts, decade = pow(10, floor(log10(least))), digit = least / decade;
  return decade * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static Frame find_frame(const Chart* chart) {
  Frame frame = {{0}, INFINITY, 0};
  for (int c = 0; c < chart->curve_count; ++c) {
    const ChartCurve* curve = &chart->curves[c];
    for (int p = 0; p < kChartPanels; ++p) frame.x_max[p] = fmax(frame.x_max[p], curve->x[p][curve->points - 1]);
    for (int i = 0; i < curve->points; ++i) {
      if (!isfinite(curve->y[i])) continue;
      frame.y_min = fmin(frame.y_min, curve->y[i]);
      if (i >= curve->points / 10) frame.y_max = fmax(frame.y_max, curve->y[i]);
    }
  }
  const double step = pick_step(frame.y_max - frame.y_min, 8);
  frame.y_min = step * floor(frame.y_min / step);
  frame.y_max = step * ceil(frame.y_max / step);
  return frame;
}

static double y_pixel(const Frame* frame, double value) {
  return kTop + kPanelHeight * (1 - (value - frame->y_min) / (frame->y_max - frame->y_min));
}

static double x_pixel(const Frame* frame, int panel, double value) {
  return kLefts[panel] + kPanelWidth * value / frame->x_max[panel];
}

static void draw_axes(FILE* svg, const Frame* frame, int panel, const char* x_title) {
  const double slack = 1e-9;  // of a gridline that should lie on the border and misses it by rounding
  const int left = kLefts[panel], right = left + kPanelWidth, bottom = kTop + kPanelHeight;
  const double x_step = pick_step(frame->x_max[panel], 8), y_step = pick_step(frame->y_max - frame->y_min, 8);
  char label[32];
  for (int i = 0; frame->y_min + i * y_step <= frame->y_max * (1 + slack); ++i) {
    const double y = y_pixel(frame, frame->y_min + i * y_step);
    fprintf(svg, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e6e6e6\"/>\n", left, y, right, y);
    snprintf(label, sizeof label, "%.4g", frame->y_min + i * y_step);
    text(svg, left - 9, y + 4, "class=\"tick\" text-anchor=\"end\"", label);
  }
  for (int i = 0; i * x_step <= frame->x_max[panel] * (1 + slack); ++i) {
    const double x = x_pixel(frame, panel, i * x_step);
    fprintf(svg, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#555\"/>\n", x, bottom, x, bottom + 5);
    snprintf(label, sizeof label, "%g", i * x_step);
    text(svg, x, bottom + 20, "class=\"tick\" text-anchor=\"middle\"", label);
  }
  fprintf(svg, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#555\"/>\n", left, bottom, right, bottom);
  text(svg, left + kPanelWidth / 2.0, bottom + 42, "class=\"axis\" text-anchor=\"middle\"", x_title);
}

static void draw_curves(FILE* svg, const Chart* chart, const Frame* frame, int panel) {
  fprintf(svg, "<clipPath id=\"frame%d\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n", panel,
          kLefts[panel], kTop - 1, kPanelWidth + 1, kPanelHeight + 2);
  for (int c = chart->curve_count - 1; c >= 0; --c) {  // the first curve comes last, on top
    const ChartCurve* curve = &chart->curves[c];
    fprintf(svg, "<polyline clip-path=\"url(#frame%d)\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" ", panel,
            kColors[c]);
    fputs("stroke-linejoin=\"round\" points=\"", svg);
    for (int i = 0; i < curve->points; ++i) {
      if (!isfinite(curve->y[i])) break;  // the training blew up: the curve ends here
      fprintf(svg, "%.1f,%.1f ", x_pixel(frame, panel, curve->x[panel][i]), y_pixel(frame, curve->y[i]));
    }
    fputs("\"/>\n", svg);
  }
}

// Names, each with the last value of its curve.
static void draw_legend(FILE* svg, const Chart* chart) {
  for (int c = 0; c < chart->curve_count; ++c) {
    const ChartCurve* curve = &chart->curves[c];
    const double x = 24 + 250 * c;
    char label[128];
    fprintf(svg, "<line x1=\"%.1f\" y1=\"101\" x2=\"%.1f\" y2=\"101\" stroke=\"%s\" stroke-width=\"3\"/>\n", x, x + 24,
            kColors[c]);
    snprintf(label, sizeof label, "%s: %.4f", curve->name, curve->y[curve->points - 1]);
    text(svg, x + 31, 105.5, "font-size=\"14\"", label);
  }
}

void chart_write(const Chart* chart, const char* path) {
  const Frame frame = find_frame(chart);
  FILE* svg = open_file(path, "w");
  fprintf(svg,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"\n"
          " font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\" font-size=\"13\" fill=\"#222\">\n"
          "<style>.tick{font-size:11.5px;fill:#555}.axis{font-size:12.5px;fill:#333}.head{font-size:14px;"
          "font-weight:bold}.note{font-size:12px;fill:#555}</style>\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
          kWidth, kHeight, kWidth, kHeight);
  text(svg, 24, 34, "font-size=\"19\" font-weight=\"bold\"", chart->title);
  for (int i = 0; i < 2; ++i) text(svg, 24, 57 + 18 * i, "class=\"note\"", chart->notes[i]);
  draw_legend(svg, chart);
  for (int p = 0; p < kChartPanels; ++p) {
    text(svg, kLefts[p], kTop - 14, "class=\"head\"", chart->panel_titles[p]);
    draw_axes(svg, &frame, p, chart->x_titles[p]);
    draw_curves(svg, chart, &frame, p);
  }
  fputs("</svg>\n", svg);
  close_file(svg, path);
}
